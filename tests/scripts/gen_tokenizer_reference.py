"""Writes the tokenizer references.

    python tests/scripts/gen_tokenizer_reference.py SMOLLM2.gguf

It needs the packages `tokenizers` and `gguf`, and writes

  tests/golden/tokenizer_smollm2.json   ids of hard strings for the SmolLM2 vocabulary of the model file
  crates/text/tests/data/PRE.json       a small vocabulary for each pre-tokenizer, trained here, with ids

The ids come from Hugging Face's `tokenizers`, each pipeline put together as in the published
tokenizer.json of its family. `transformers` could build the SmolLM2 tokenizer from the GGUF file
itself, but takes the plain GPT-2 pipeline for it: the published one first isolates every digit
(Digits(individual_digits=True)), which changes ids such as those of " 5".

A case has `text`, or `repeat`: [prefix, unit, times, suffix]; and `ids`, or `digest`: how many
and a hash of them.
`special_ids` are the ids with control tokens recognised, where they differ. `decoded` is there where
decoding the ids does not give the text back (bytes without a token are left out; text is composed).
"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

ROOT = pathlib.Path(__file__).resolve().parents[2]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

WORDS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t ", " \n", "\n ", " \n \n ", "a", " a", "  a", "a ", "a  ",
    "Hello, world!", "Hello  world", "Hello   world  ", " leading", "   leading", "trailing   ", "\ttab\tseparated", "a\nb", "a\n\nb",
    "a\n\n\nb", "a \n b", "a  \n  b", "line one\r\nline two\r\n", "a\r\n\r\nb", "a\rb", "a \r\n  b", "\n\n  indented",
    "don't can't I'm you're we've they'll he'd it's", "DON'T CAN'T I'M YOU'RE WE'VE THEY'LL HE'D IT'S", "'s 't 're", "o'clock 'tis ''s",
    "'\u017f \u2019s it\u2019s I\u2019m", "x'S y'Re z'lL", "rock 'n' roll",
    "0", "1", "12", "123", "1234", "12345", "1234567890", " 5", "  5", "a5", "5a", "3.14159", "1,000,000", "v1.2.3-rc4", "2026-11-29T17:43:55Z",
    "0x1F 1e-9 100%", "\u00bd \u00b2 \u2167 \u0663\u0664\u0665", "\u096b\u096c\u096d 12", "\uff11\uff12\uff13", "\u2460\u2461 \u3289", "1st 2nd 3rd",
    "!", "!!!", "?!?!", "...", "\u2026", "--", "\u2014", "$100", "#hash @at", "a.b.c", "(a)[b]{c}", "<tag attr=\"x\">", "&amp;", "~`^|\\", "_under_score_",
    "!\n", "!\n\n", ".\r\n\r\nx", " !\n x", "a!\n\n\nb", "*\n*\n", "/* c */\n", "::\n\n::",
    "def f(x):\n    return x ** 2\n", "for (int i = 0; i < 10; ++i) {\n\tsum += a[i];\n}\n", "if x == 1:\n        y = '\\n'\n\n\nprint(y)",
    "let s = \"a\\tb\"; // comment", "SELECT * FROM t WHERE a >= 10;", "{\"key\": [1, 2.5, null, true]}", "https://example.org/a?b=c&d=%20#e",
    "camelCase PascalCase snake_case kebab-case SCREAMING_CASE", "\\begin{align} x^2 \\end{align}", "git commit -m 'x' && echo $?", "a\tb\n\t\tc",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
    "\u4e2d\u6587 English \u6df7\u5408 123", "\u3000\u3000\u5168\u89d2\u7a7a\u767d", "\uff76\uff9e\uff77\uff9e", "\u1112\u1161\u11ab", "\ud800\udc00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "\U00020000\U0002a6d6", "\u9f98" * 12,
    "\U0001f600", "\U0001f600\U0001f601", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f", "\U0001f3f3\ufe0f\u200d\U0001f308", "1\ufe0f\u20e3", "a\U0001f600b", " \U0001f600 ", "\u263a text \U0001f9d1\u200d\U0001f4bb",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0628\u0650\u0633\u0652\u0645\u0650 \u0627\u0644\u0644\u064e\u0651\u0647\u0650", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\u13a0\u13a1\u13a2", "\u1780\u17b6",
    "caf\u00e9", "cafe\u0301", "e\u0301\u0323 a\u030a \u212b \u00c5", "\u1e9b\u0323", "q\u0307\u0323", "\u0344 \u0958", "x\u0301\u0301\u0301\u0301", "\u0301start", " \u0301", "a \u0338b", "\ufb01 \ufb03 \u01c4",
    "na\u00efve fa\u00e7ade co\u00f6perate \u00dcber stra\u00dfe \u0130stanbul \u0131", "\u00e6\u00f8\u00e5 \u00f1 \u00df \u1e9e", "M\u00fcller-L\u00fcdenscheidt",
    "\u0000", "a\u0000b", "\u0001\u0002\u0003", "\u0004\u0006\u0013\u0014\u0016\u001d", "\u001b[31mred\u001b[0m", "\u007f", "\u0085", "a\u0085b", "\u001c\u001d\u001e\u001f", "x\u000b\u000cy", "\u0008\u0008",
    "\u00a0", "a\u00a0b", "\u2003\u2003x", "a\u2028b\u2029c", "\u200b\u200bx", "\ufeffBOM", "\u202eRTL\u202c", "\u1680x", "\u180ex", "\u205f\u3000x", "\u2000\u2001 \u2002x", "a\u00ad-b", "\u2060",
    "\ue000\uf8ff", "\U000f0000\U0010ffff", "\ufffd", "\ufffe\uffff", "\U000e0001\U000e0020", "\U0003ffff\U00040000",
    "<|im_start|>", "<|im_end|>", "a<|im_end|>b", "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|><|endoftext|>", " <|im_end|> ", "<|im_end|", "|im_end|>", "<|IM_END|>", "<<|im_end|>>", "<|im_<|im_end|>end|>",
    "<repo_name>x", "<file_sep>", "<jupyter_code>1+1", "</s><s>", "<|eot_id|>", "<tool_call>{}</tool_call>", "x<tool_call>y", "tool_call",
    "The quick brown fox jumps over the lazy dog.", "supercalifragilisticexpialidocious", "antidisestablishmentarianism" * 3, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababab", "ZZZZZZZZ zzzzzzzz",
    "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer", "1 + 1 = 2; 2 \u00d7 2 = 4; \u221ax \u2248 1.41\u2026", "\u00abquote\u00bb \u201equote\u201c \u2018q\u2019", "\u20ac5 \u00a31 \u00a510 \u20b9100",
    "\u2200x\u2208\u211d: \u2308x\u2309 = \u2212\u230a\u2212x\u230b", "H\u2082O CO\u2082 E=mc\u00b2", "a\u0336b\u0336c\u0336", "Z\u0351\u036b\u0343\u036a\u0302a\u0337\u0328\u0322l\u0316g\u031fo\u0319", "\U0001d49c\U0001d4b7\U0001d4b8", "\U0001f170\ufe0f\U0001f171\ufe0f",
]

REPEATS = [
    ["", " ", 10000, ""], ["", " ", 10000, "x"], ["x", " ", 10000, "x"], ["", "\n", 3000, ""], ["a", "\n", 3000, "b"], ["a", " \n", 2000, " b"], ["", "\t", 1000, "x"],
    ["", "a", 3000, ""], ["", "ab ", 1000, ""], ["", "7", 500, ""], ["", "!", 1000, "\n"], ["", "\u3000", 1000, "x"], ["", "\U0001f600", 300, ""], ["", "\r\n", 1000, "x"], ["1", "  ", 600, "2"],
]


def digest(ids):
    """[count, FNV-1a over the ids as 4 little-endian bytes, in hexadecimal]"""
    h = 0xCBF29CE484222325
    for i in ids:
        for byte in i.to_bytes(4, "little"):
            h = (h ^ byte) * 0x100000001B3 % 2**64
    return [len(ids), f"{h:016x}"]


def case(tokenizer, text, fields):
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    special = tokenizer.encode(text, add_special_tokens=False).ids
    out = dict(fields)
    if "repeat" in fields:
        out["digest"] = digest(ids)
    else:
        out["ids"] = ids
    if special != ids:
        out["special_ids"] = special
    decoded = tokenizer.decode(ids, skip_special_tokens=True)
    if decoded != text:
        if "repeat" in fields:
            raise SystemExit(f"a repeated text does not decode to itself: {fields}")
        out["decoded"] = decoded
    return out


def cases(tokenizer, words, repeats):
    out = [case(tokenizer, text, {"text": text}) for text in words]
    for prefix, unit, times, suffix in repeats:
        out.append(case(tokenizer, prefix + unit * times + suffix, {"repeat": [prefix, unit, times, suffix]}))
    return out


def write(path, document):
    """One case a line, so that a change shows as one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {key: value for key, value in document.items() if key != "cases"}
    text = json.dumps(head, ensure_ascii=True)[:-1] + ', "cases": [\n'
    text += ",\n".join(json.dumps(c, ensure_ascii=True) for c in document["cases"]) + "\n]}\n"
    path.write_text(text)
    print(path.relative_to(ROOT), len(document["cases"]), "cases", len(text), "bytes")


def pipeline(pre):
    """normalizer, pre-tokenizer and ignore_merges of a family's published tokenizer.json"""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if pre == "gpt-2":
        return None, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), False
    if pre == "smollm":
        return None, pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]), False
    if pre == "llama-bpe":
        return None, pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level]), True
    if pre == "qwen2":
        return normalizers.NFC(), pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), byte_level]), False
    raise SystemExit(pre)


def assemble(pre, tokens, types, merges):
    normalizer, pre_tokenizer, ignore_merges = pipeline(pre)
    # Ids of added tokens follow their place in the vocabulary, so they are in it.
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges, ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3])
    tokenizer.add_tokens([AddedToken(t, special=False) for t, k in zip(tokens, types) if k == 4])
    return tokenizer


def small(pre):
    normalizer, pre_tokenizer, _ = pipeline(pre)
    trained = Tokenizer(BPE())
    if normalizer:
        trained.normalizer = normalizer
    trained.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=640, min_frequency=2, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    corpus = WORDS + [pathlib.Path(__file__).read_text()]
    trained.train_from_iterator(corpus, trainer)
    state = json.loads(trained.to_str())["model"]
    tokens = [token for token, _ in sorted(state["vocab"].items(), key=lambda item: item[1])]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in state["merges"]]
    types = [1] * len(tokens)
    # Words that no merge makes: only with ignore_merges are they found.
    for token in ["\u0120supercalifragilistic", "supercalifragilisticexpialidocious", "1234567890", "567"]:
        tokens.append(token)
        types.append(1)
    for token in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]:
        tokens.append(token)
        types.append(3)
    for token in ["<tool_call>", "</tool_call>"]:
        tokens.append(token)
        types.append(4)
    tokenizer = assemble(pre, tokens, types, merges)
    short = [word for word in WORDS if len(word) <= 14]
    write(ROOT / f"crates/text/tests/data/{pre}.json", {
        "pre": pre,
        "tokens": tokens,
        "token_types": types,
        "merges": [" ".join(merge) for merge in merges],
        "cases": cases(tokenizer, short, REPEATS),
    })


def smollm2(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = assemble("smollm", tokens, types, merges)
    write(ROOT / "tests/golden/tokenizer_smollm2.json", {
        "vocabulary": "SmolLM2",
        "cases": cases(tokenizer, WORDS, REPEATS),
    })


if __name__ == "__main__":
    if len(WORDS) < 200 or len(set(WORDS)) != len(WORDS):
        raise SystemExit(f"{len(WORDS)} strings, {len(set(WORDS))} of them different; 200 are wanted")
    for name in ["gpt-2", "smollm", "llama-bpe", "qwen2"]:
        small(name)
    smollm2(sys.argv[1])
