"""Writes crates/text/tests/data/templates.json: what Hugging Face renders from chat templates.

    python tests/scripts/gen_template_reference.py

It needs the package `transformers`. The templates are written for this test; each uses features that
templates of published models use. Rendering goes through the environment `transformers` compiles templates in.
"""

import json
import pathlib

from transformers.utils.chat_template_utils import _compile_jinja_template

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
    path = ROOT / "crates/text/tests/data/templates.json"
    path.write_text(json.dumps({"now": NOW, "cases": cases}, ensure_ascii=False, indent=1) + "\n")
    print(path.relative_to(ROOT), len(cases), "cases", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
