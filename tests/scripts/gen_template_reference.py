"""Writes crates/text/tests/data/templates.json: what Hugging Face renders from chat templates.

    python tests/scripts/gen_template_reference.py

It needs the package `transformers`. The templates are written for this test; each uses features that
templates of published models use. Rendering goes through the environment `transformers` compiles templates in.
"""

import json
import pathlib

from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHAT = [
    {"role": "system", "content": "  Be brief. \n"},
    {"role": "user", "content": "Hi <b>there</b> & \"you\"\n\n"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "  What's up? 日本 ", "name": "Zoë"},
]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather <now> é", "parameters": {
    "type": "object", "required": ["city"], "properties": {"city": {"type": "string", "enum": ["Wien", "Łódź"]}, "days": {"type": "integer", "default": 3},
                                                         "exact": {"type": "boolean", "default": False}, "x": {"type": "number", "default": 1.5}, "none": {"default": None}}}}}]
CALLS = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź", "days": 2, "deep": [1, {"a": []}]}}}]},
    {"role": "tool", "content": "{\"temp\": 3}", "tool_call_id": "c1"},
]

PARTS = [
    {"role": "system", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": " Two. "}]},
    {"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "<think>\nhm, so\n</think>\n\nYes. ", "reasoning_content": "ignored"},
    {"role": "user", "content": "  and c?"},
    {"role": "assistant", "reasoning_content": "short", "content": "No."},
    {"role": "user", "content": "x.y.z"},
]
# Beside messages and tools: what a request may add, which templates look for.
ADDED = [
    {},
    {"enable_thinking": False, "documents": [{"title": "A", "text": "one"}, {"title": "B", "text": "two é"}]},
    {"enable_thinking": True, "effort": "low", "xml_tools": ["a", {"name": "b", "x": 1.0, "y": 1e-7, "z": 123456789012345678}]},
]

TEMPLATES = {
    "blocks are trimmed": """{% for message in messages %}
    {% if message.role == 'user' %}
<u>{{ message.content }}</u>
    {%- else %}
  <o>{{ message['content'] | trim }}</o>
    {% endif %}
{% endfor %}
{{- '<end>' }}
""",
    "turns with a prompt": """{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content.strip() + eos_token + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}""",
    "namespace and slices": """{%- set ns = namespace(found=false, n=0) -%}
{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] | trim -%}{%- set rest = messages[1:] -%}{%- else -%}{%- set rest = messages -%}{%- endif -%}
[{{ system }}]
{%- for m in rest -%}
{%- if m.name is defined -%}{%- set ns.found = true -%}{%- endif -%}{%- set ns.n = ns.n + loop.index0 -%}
{{ loop.index }}/{{ loop.length }}{{ ' last' if loop.last else '' }}:{{ m.content }}|
{%- endfor -%}
{{ ns.found }} {{ ns.n }} {{ (messages | length) % 2 == 0 }} {{ messages[-1].role }} {{ messages | map(attribute='role') | join(',') }}""",
    "tools as json": """{% if tools %}{% for t in tools %}{{ t | tojson }}
{{ t.function | tojson(indent=4) }}
{{ t.function.parameters.properties.items() | list | length }}{% for k, v in t.function.parameters.properties.items() %} {{ k }}={{ v.type }}{% endfor %}
{% endfor %}{% endif %}{{ tools is none }} {{ tools is defined }} {{ documents is defined }}""",
    "tool calls": """{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}{% set f = c.function %}<call>{"name": {{ f.name | tojson }}, "arguments": {{ f.arguments | tojson }}}</call>{% endfor %}{% elif m['role'] == 'tool' %}<result id={{ m.tool_call_id }}>{{ m.content }}</result>{% else %}{{ m.content }}{% endif %}{% endfor %}{{ messages[0].tool_calls }}|{{ messages[0].missing }}|""",
    "string methods": """{% for m in messages %}{{ m.content.strip().upper() }};{{ m.content.startswith('Hi') }};{{ m.content.rstrip('\\n') }};{{ m.content.split(' ')[0] }};{{ m.content.replace('e', '3') }};{{ 'e' in m.content }};{{ m.get('name', 'nobody') }};{{ m.content.lstrip() }};{{ m.content.split('\\n')[-1] }}|
{% endfor %}""",
    "loop controls and macros": """{% macro show(m, mark='*') %}{{ mark }}{{ m.content | trim }}{{ mark }}{% endmacro %}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ show(m) }}{{ show(m, mark='+') }}{% if loop.index > 2 %}{% break %}{% endif %}{% endfor %}""",
    "generation blocks": """{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}[{{ m.content }}]{% endif %}
{% endfor %}
x""",
    "dates": """{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d') }} {{ strftime_now is defined }}""",
    "tests and filters": """{% for m in messages %}{% if m.content is string %}s{% endif %}{% if m is mapping %}m{% endif %}{% if messages is iterable and messages is not mapping %}i{% endif %}{{ m.content | length }}{{ m.content | upper | trim }}{{ loop.previtem.role if loop.previtem is defined else '-' }}{{ m.name | default('x') }}{{ (m.content | list)[0] }}{{ 7 // 2 }}{{ 'a' ~ 1 }}{{ not true }}{{ none }}{{ [1, 'x', none, true] }}|{% endfor %}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='content') | first }}{{ range(3) | list }}{{ {'a': 1, 'b': 'c'} }}{{ messages | last | tojson }}""",
    "reverse search": """{%- set ns = namespace(multi=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi and message.role == "user" %}
        {%- set ns.multi = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{{- ns.last }}
{%- for m in messages %}
{{- '<' + m.role + '>' }}
{%- if loop.index0 > ns.last or (loop.last and not add_generation_prompt) %}{{- m.content }}{%- endif %}
{%- endfor %}
""",
}

# Rendered with tools, calls, parts of contents and further variables.
MORE_TEMPLATES = {
    "json arguments": """{% for v in [tools, messages[-1], xml_tools or none, documents] %}{{ v | tojson(ensure_ascii=False) }}
{{ v | tojson(ensure_ascii=True) }}
{{ v | tojson(sort_keys=True, indent=2) }}
{{ v | tojson(separators=(',', ':')) }}{{ v | tojson(True, 4) }}{{ v | tojson(indent=None) }}
{% endfor %}""",
    "thinking taken out": """{%- for m in messages %}
    {%- if m.content is string %}{%- set content = m.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if m.role == 'assistant' %}
        {%- set reasoning = '' %}
        {%- if m.reasoning_content is string and '</think>' not in content %}
            {%- set reasoning = m.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<a>' + (('<think>' + reasoning + '</think>') if reasoning and loop.index0 > 2 else '') + content + '</a>' }}
    {%- else %}
        {{- '<' ~ m.role ~ '>' ~ content ~ '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<a>' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{ '<think>' if effort|default('none') == 'low' }}{%- endif %}
{%- endif %}""",
    "parts": """{% for m in messages %}[{% if m.content is string %}{{ m.content | trim }}{% elif m['content'] is iterable %}{% for part in m['content'] %}{% if part.type == 'text' %}{{ part['text'] | trim }}{{ '|' if not loop.last }}{% endif %}{% endfor %}{% else %}none{% endif %}{{ m.content is not string and m.content is sequence }}]
{% endfor %}""",
    "types as source": """{%- macro kind(p) -%}
    {%- if p.type == 'array' -%}{{ kind(p['items']) ~ '[]' }}
    {%- elif p.enum -%}{{ p.enum | map('tojson') | join(' | ') }}
    {%- elif p.type is iterable and p.type is not string -%}{{ p.type | join('|') }}
    {%- elif p.type == 'object' -%}{
        {%- for name, inner in p.properties.items() %}
{{ '  ' ~ name ~ ('' if name in (p.required or []) else '?') ~ ': ' ~ kind(inner) ~ (', // default: ' ~ inner.default if inner.default is defined and inner.default is not none else ',') }}
        {%- endfor %}
}
    {%- else -%}{{ p.type or 'any' }}{%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] -%}
{%- set f = tool.function if tool.function is defined else tool -%}
type {{ f.name }} = (_: {{ kind(f.parameters) }}) => any;
{% endfor -%}
{{- dict(a=1, b='c').items() | list }}""",
    "calls alternate": """{%- set ns = namespace(index=0, open=false) -%}
{%- for m in messages -%}
{%- if m['role'] == 'user' or (m.role == 'assistant' and not m.tool_calls) -%}{%- set ns.index = ns.index + 1 -%}{%- endif -%}
{%- if m.role == 'tool' -%}
{%- if not ns.open -%}<results>{%- set ns.open = true -%}{%- endif -%}
{{ m.content | string }}{{ '</results>' if loop.last or loop.nextitem.role != 'tool' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{%- set ns.open = false -%}{%- endif -%}
{%- elif m.tool_calls is defined and m.tool_calls is iterable and m.tool_calls | length > 0 -%}
{%- for call in m.tool_calls -%}
{%- if call.function is defined -%}{%- set call = call.function -%}{%- endif -%}
{{ '<call>' ~ call.name }}{% for k, v in call.arguments | items %} {{ k }}={{ v | tojson if v is mapping or (v is sequence and v is not string) else v | string }}{% endfor %}</call>
{%- endfor -%}
{%- elif (m.content or '') is string -%}{{ m.content }}{%- endif -%}
{%- endfor -%}
{{ ns.index }}{% if messages | length > 9 %}{{ raise_exception('too many') }}{% endif %}""",
    "documents": """{% if documents %}{% for d in documents %}Document: {{ loop.index0 }}
{{ d.title }}: {{ d['text'] }}{% if not loop.last %}

{% endif %}{% endfor %}{% endif %}{{ documents is none }}{{ (documents or []) | length }}{{ documents is iterable }}{{ nothing is iterable }}{{ 1 is iterable }}\r\n{{ 'a\r\nb' | length }}""",
    "more string methods": """{% set s = messages[-1].content if messages[-1].content is string else 'a.b' %}{{ s.rsplit('.', 1) }}{{ s.split('.', 1) }}{{ s.removeprefix('x.') }}{{ s.removesuffix('.z') }}{{ s.find('y') }}{{ s.count('.') }}{{ s.isdigit() }}{{ s[::-1] }}{{ s[:3] }}{{ s[-1:] }}{{ '%s-%d' | format(s, 3) }}{{ '{} {}'.format(s, 1) }}{{ s.splitlines() }}{{ s.endswith(('z', 'b')) }}{{ s | replace('.', '') | capitalize }}{{ 'a\\n b' | indent(2) }}""",
    "scopes": """{% set a = 1 %}{% for m in messages %}{% set a = a + 1 %}{{ a }}{% else %}none{% endfor %}{{ a }}{% with b = 3 %}{{ b }}{% endwith %}{{ b is defined }}{% if false %}{% elif a == 1 %}one{% endif %}{% set block %}x{{ a }}y{% endset %}{{ block | upper }}{% filter trim %}  z  {% endfilter %}{{ [1, 2] + [3] }}{{ (1, 2) }}{{ 1 / 2 }}{{ 2 ** 3 }}{{ 7 % 4 }}{{ -1 // 2 }}{{ 1.0 }}{{ 'a' if a > 1 }}{{ a in [1] and not a == 2 }}{{ {'b': 2, 'a': 1} | dictsort }}{{ [3, 1] | sort | first }}{{ messages | map(attribute='role') | unique | join('/') }}{{ [1, 2, 3] | batch(2) | list }}{{ 'abc' | list | reverse | join }}{{ true and 'x' or 'y' }}{{ [] or 'empty' }}{{ 3 | string ~ '4' }}{{ '5' | int + 1 }}{{ '1.5' | float }}{{ 2.5 | round | int }}{{ [1, 2] | sum }}{{ loop is defined }}{% raw %}{{ raw }}{% endraw %}{# gone #}""",
}

# What is left of a final message that goes on: (template, content).
OPEN = [
    ("""{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<end>\n' }}{% endfor %}""", "It is"),
    ("""{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<end>\n' }}{% endfor %}""", "  It is \n"),
    ("""{% for m in messages %}{{ '<|' + m.role + '|> ' + m.content | trim + ' <end>' }}{% endfor %}""", "  It is \n"),
    ("""{% for m in messages %}{{ m.content.strip() }} {{ eos_token }}{% endfor %}""", "</s> and </s>"),
    ("""{% for m in messages %}{{ m.content.split('</think>')[-1] }}.{% endfor %}""", "so"),
    ("""{% for m in messages %}{% for p in m.content if p is mapping %}{{ p.text | trim }}{% endfor %};{% endfor %}""",
     [{"type": "text", "text": "One"}, {"type": "text", "text": " two "}]),
    ("""{% for m in messages %}{{ m.content | upper }}{% endfor %}""", "ss"),
    ("""{{ messages[0].content }}""", "lost"),
    ("""{% for m in messages %}{{ m.content }}{% endfor %}""", ""),
]

NOW = 1_767_225_599  # 2025-12-31 23:59:59 UTC


def main():
    import datetime

    cases = []
    for name, source in TEMPLATES.items():
        template = _compile_jinja_template(source)
        for messages, tools in [(CHAT, None), (CALLS, TOOLS)]:
            for prompt in (False, True):
                text = template.render(
                    messages=messages, tools=tools, documents=None, add_generation_prompt=prompt,
                    bos_token="<s>", eos_token="</s>",
                    strftime_now=lambda f: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(f))
                cases.append({"name": name, "source": source, "messages": messages, "tools": tools or [],
                              "add_generation_prompt": prompt, "text": text})
    calls_more = CALLS + [{"role": "tool", "content": "[1, 2]", "tool_call_id": "c2"}, {"role": "assistant", "content": None}]
    calls_more[1] = {**CALLS[1], "tool_calls": CALLS[1]["tool_calls"] * 2, "content": None}
    for name, source in MORE_TEMPLATES.items():
        template = _compile_jinja_template(source)
        for messages, tools in [(PARTS, None), (CALLS, TOOLS), (calls_more, TOOLS)]:
            # As `apply_chat_template` does.
            shown = [{k: v for k, v in message.items() if v is not None} for message in messages]
            for added in ADDED:
                more = {"documents": None, **added}
                text = template.render(
                    messages=shown, tools=tools, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", **more)
                cases.append({"name": name, "source": source, "messages": messages, "tools": tools or [],
                              "add_generation_prompt": True, "added": added, "text": text})
    opened = []
    for source, content in OPEN:
        messages = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": content}]
        try:
            text = render_jinja_template([messages], chat_template=source, continue_final_message=True,
                                         bos_token="<s>", eos_token="</s>")[0][0]
        except ValueError:
            text = None
        opened.append({"source": source, "messages": messages, "text": text})
    path = ROOT / "crates/text/tests/data/templates.json"
    path.write_text(json.dumps({"now": NOW, "cases": cases, "open": opened}, ensure_ascii=False, indent=1) + "\n")
    print(path.relative_to(ROOT), len(cases), "cases", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
