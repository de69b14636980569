"""Writes the tokenizer references.

    python tests/scripts/gen_tokenizer_reference.py SMOLLM2.gguf QWEN2.5-CODER.gguf GEMMA3.gguf
    python tests/scripts/gen_tokenizer_reference.py --only PRE...

The second form writes the small vocabularies of these pre-tokenizers and nothing else. (All are trained on this file's text too, so that
every change of it changes them all.) It needs the packages `tokenizers`, `sentencepiece` (with `protobuf`) and `gguf`, and writes

  tests/golden/tokenizer_NAME.json      ids of hard strings for the vocabularies of the model files
  crates/text/tests/data/PRE.json       a small vocabulary for each pre-tokenizer, trained here, with ids
  crates/text/tests/data/words.json     into which words each pre-tokenizer, and each published expression, cuts hard strings: a hash of them, joined
  crates/text/tests/data/spm*.json      two small SentencePiece vocabularies, trained here, with ids
  crates/text/tests/data/json-*.json    small files in the format of `tokenizers`, trained here, with ids

The ids of byte-level vocabularies come from Hugging Face's `tokenizers`, each pipeline put together as in the published
tokenizer.json of its family. `transformers` could build the SmolLM2 tokenizer from the GGUF file
itself, but takes the plain GPT-2 pipeline for it: the published one first isolates every digit
(Digits(individual_digits=True)), which changes ids such as those of " 5". From the Qwen file it makes one without
normalization, where the published one composes (NFC), which changes those of "cafe\\u0301".

The ids of vocabularies of pieces come from Google's `sentencepiece`, for the Gemma file from a model put together from
its pieces, scores and types. (What `transformers` makes of that file, merges in place of scores, gives the same ids for all strings here but
the longest runs of spaces: 35 spaces are a run of 31 and one of 4 for `sentencepiece`, not for those merges.)

A case has `text`, or `repeat`: [prefix, unit, times, suffix]; and `ids`, or `digest`: how many
and a hash of them.
`special_ids` are the ids with control tokens recognised, where they differ. `decoded` is there where
decoding the ids does not give the text back (bytes without a token are left out; text is composed).
"""

import io
import json
import pathlib
import re
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

ROOT = pathlib.Path(__file__).resolve().parents[2]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+'''
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_LETTERS = "".join(
    "-".join(chr(int(code, 16)) for code in part.split("-")) for part in
    """00B5 00C0-00D6 00D8-00F6 00F8-01BA 01BC-01BF 01C4-0293 0295-02AF 0370-0373 0376 0377 037B-037D 037F 0386 0388-038A
    038C 038E-03A1 03A3-03F5 03F7-0481 048A-052F 0531-0556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B
    1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC
    1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124
    2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3
    A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F
    104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943""".split())
O200K = TEKKEN.replace(r"\p{M}]+|[^", r"\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^").replace(
    r"\p{M}]*|\p{N}", r"\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

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
    "12345678901234567890", "1234567890123456789", "98765 4321", "007", "\u2581", "a\u2581b", "\u2581\u2581 \u2581x", "<0x41>", "<0x0A>\n",
    "<bos>", "<eos><pad>", "<start_of_turn>user\nhi<end_of_turn>\n", "a<start_of_turn>b", "<unused0>", "<unk>", "<start_of_image>",
    "<b>bold</b>", "<table><tr><td>x</td></tr></table>", "</s>", "<s>x</s>", "x <|end|> \n y<|end|>", "[multimodal]", "HTTPServerError", "XMLHttpRequest getHTTPResponse",
    "path/to/file.rs\n/usr/bin\n", "a/\n/b", "\t\t\tx\t\ty", "\u01c5 \u02b0 \u0300", "\u4e00-\u9fff \u0801", "x \u3001\u3002 y", "+1 <2> =3 ^4 `5` |6| ~7 $8",
]

REPEATS = [
    ["", " ", 10000, ""], ["", " ", 10000, "x"], ["x", " ", 10000, "x"], ["", "\n", 3000, ""], ["a", "\n", 3000, "b"], ["a", " \n", 2000, " b"], ["", "\t", 1000, "x"],
    ["", "a", 3000, ""], ["", "ab ", 1000, ""], ["", "7", 500, ""], ["", "!", 1000, "\n"], ["", "\u3000", 1000, "x"], ["", "\U0001f600", 300, ""], ["", "\r\n", 1000, "x"], ["1", "  ", 600, "2"],
    ["", "a", 10000, ""], ["", "longword", 1250, ""], ["", "\u65e5\u672c", 5000, ""], ["a", " ", 35, "b"], ["", "Hello, world! ", 3000, ""],
]


def fnv(data):
    """FNV-1a in hexadecimal"""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return f"{h:016x}"


def digest(ids):
    """[count, FNV-1a over the ids as 4 little-endian bytes]"""
    return [len(ids), fnv(b"".join(i.to_bytes(4, "little") for i in ids))]


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
    splits = lambda *regexes: [pre_tokenizers.Split(Regex(regex), "isolated") for regex in regexes]
    if pre == "smaug-bpe":  # Llama 3's words, in the way of GPT-2
        return None, pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level]), False
    if pre == "tekken":
        return None, pre_tokenizers.Sequence(splits(TEKKEN) + [byte_level]), True
    if pre == "falcon":
        return None, pre_tokenizers.Sequence([
            pre_tokenizers.Punctuation(behavior="contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            pre_tokenizers.Digits(individual_digits=False)] + splits("[0-9][0-9][0-9]")), False
    if pre == "deepseek-coder":
        return None, pre_tokenizers.Sequence(splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN) + [
            pre_tokenizers.Digits(individual_digits=True), byte_level]), False
    if pre == "deepseek-llm":
        return None, pre_tokenizers.Sequence(splits(
            "[\r\n]", r"\s?[A-Za-z" + DEEPSEEK_LETTERS + "]+",
            r"\s?[!-/:-~" + "\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", EAST_ASIAN) + [
            pre_tokenizers.Digits(individual_digits=True), byte_level]), False
    if pre == "deepseek-v3":
        return None, pre_tokenizers.Sequence(splits(
            r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3) + [byte_level]), False
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


def words(families):
    splitters = {pre: pipeline(pre)[1] for pre in families}
    hashed = lambda pre, text: fnv(" ".join(word for word, _ in splitters[pre].pre_tokenize_str(text)).encode())
    # One is published with the line breaks themselves.
    published = [GPT2, LLAMA3, QWEN2, TEKKEN, O200K, QWEN35, DEEPSEEK3.replace(r"\r\n", "\r\n")]
    splits = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in published]
    cut = lambda split, text: fnv("\1".join(word for word, _ in split.pre_tokenize_str(text)).encode())
    document = {"families": families, "published": published, "cases": [
        {"text": text, "words": [hashed(pre, text) for pre in families], "published": [cut(split, text) for split in splits]} for text in WORDS]}
    write(ROOT / "crates/text/tests/data/words.json", document)


def metadata(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    return lambda key: fields[f"tokenizer.ggml.{key}"].contents()


def byte_level_model(pre, name, path):
    field = metadata(path)
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    tokenizer = assemble(pre, field("tokens"), field("token_type"), merges)
    write(ROOT / f"tests/golden/tokenizer_{name}.json", {"vocabulary": name, "cases": cases(tokenizer, WORDS, REPEATS)})


class Pieces:
    """A SentencePiece model that answers as a `Tokenizer` does."""

    def __init__(self, proto, control):
        import sentencepiece

        self.model = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        self.control = control
        self.pattern = re.compile("(" + "|".join(map(re.escape, sorted(control, key=len, reverse=True))) + ")")
        self.encode_special_tokens = True

    def encode(self, text, add_special_tokens):
        self.ids = []
        for part in [text] if self.encode_special_tokens else self.pattern.split(text):
            if not self.encode_special_tokens and part in self.control:
                self.ids.append(self.control[part])
            else:
                self.ids += self.model.encode(part)
        return self

    def decode(self, ids, skip_special_tokens):
        return self.model.decode(ids)


# Control tokens whatever the file says: see the tokenizer.
MARKERS = ["<start_of_image>", "<end_of_image>"]


def pieces_model(name, path):
    from sentencepiece import sentencepiece_model_pb2

    field = metadata(path)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = field("add_space_prefix")
    proto.normalizer_spec.remove_extra_whitespaces = False
    control = {}
    for i, (token, score, kind) in enumerate(zip(field("tokens"), field("scores"), field("token_type"))):
        if i == field("unknown_token_id"):
            kind = 2
        if token in MARKERS:
            kind = 3
        if kind in (2, 3):
            control[token] = i
        proto.pieces.add(piece=token.replace(" ", "\u2581"), score=score, type=kind)
    tokenizer = Pieces(proto, control)
    write(ROOT / f"tests/golden/tokenizer_{name}.json", {"vocabulary": name, "cases": cases(tokenizer, WORDS, REPEATS)})


def small_pieces(name, prefix, defined):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    corpus = WORDS + pathlib.Path(__file__).read_text().splitlines()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text for text in corpus if "\0" not in text), model_writer=model, model_type="bpe", vocab_size=1000, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix, character_coverage=0.98,
        user_defined_symbols=defined, control_symbols=["<start_of_turn>", "<end_of_turn>"], minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    # One piece that words need on their way is taken out of use.
    unused = next(piece for piece in proto.pieces if piece.type == 1 and len(piece.piece) == 2)
    unused.type = 5
    tokens = [piece.piece.replace("\u2581", " ") if piece.type == 4 else piece.piece for piece in proto.pieces]
    types = [piece.type for piece in proto.pieces]
    tokenizer = Pieces(proto, {t: i for i, (t, k) in enumerate(zip(tokens, types)) if k in (2, 3)})
    short = [word for word in WORDS if len(word) <= 30]
    write(ROOT / f"crates/text/tests/data/{name}.json", {
        "tokens": tokens,
        "token_types": types,
        "scores": [piece.score for piece in proto.pieces],
        "add_space_prefix": prefix,
        "cases": cases(tokenizer, short, REPEATS),
    })


class Unspelled:
    """A Unigram tokenizer whose control tokens no text can become. The library finds their pieces in a text even when it is told
    not to look for control tokens; this project never does."""

    def __init__(self, tokenizer, special):
        state = json.loads(tokenizer.to_str())
        state["added_tokens"] = [token for token in state["added_tokens"] if not token["special"]]
        for entry in state["model"]["vocab"]:
            if entry[0] in special:
                entry[0] = "\0" + entry[0]
        self.plain, self.whole = Tokenizer.from_str(json.dumps(state)), tokenizer
        self.encode_special_tokens = True

    def encode(self, text, add_special_tokens):
        return (self.plain if self.encode_special_tokens else self.whole).encode(text, add_special_tokens=add_special_tokens)

    def decode(self, ids, skip_special_tokens):
        return self.whole.decode(ids, skip_special_tokens=skip_special_tokens)


def small_json(name):
    """A small tokenizer.json as published ones are made, its tokenizer_config.json, and ids."""
    from tokenizers import models, processors

    corpus = WORDS + pathlib.Path(__file__).read_text().splitlines()
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>"]
    common = dict(special_tokens=special, show_progress=False)
    if name == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {3,}"), "   ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
        trainer = trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>", **common)
    elif name == "unigram-bytes":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        tokenizer.decoder = pieces
        trainer = trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>", **common)
    elif name == "bpe-legacy":  # Llama 2
        tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        tokenizer.decoder = decoders.Sequence([
            decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        trainer = trainers.BpeTrainer(vocab_size=900, limit_alphabet=120, max_token_length=12, **common)
    elif name == "bpe-pieces":  # Gemma
        tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = pieces
        trainer = trainers.BpeTrainer(vocab_size=900, limit_alphabet=120, max_token_length=12, **common)
    elif name == "bpe-no-bytes":
        tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=False))
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Digits(True)])
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
        trainer = trainers.BpeTrainer(vocab_size=500, limit_alphabet=60, **common)
    else:  # Llama 3, and GPT-2 with a space in front
        tokenizer = Tokenizer(BPE(ignore_merges=name == "bpe-llama3"))
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=name == "bpe-gpt2", use_regex=name == "bpe-gpt2")
        tokenizer.pre_tokenizer = byte_level if name == "bpe-gpt2" else pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level])
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=640, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common)
    # Spellings that are control tokens whatever a file says are none of the pieces.
    tokenizer.train_from_iterator([text for text in corpus if not re.search(r"<\||_of_image|" + "|".join(special), text)], trainer)
    if name in ("unigram-bytes", "bpe-legacy", "bpe-pieces"):
        # Trainers know no byte tokens; published files have them in the vocabulary.
        state = json.loads(tokenizer.to_str())
        vocab = state["model"]["vocab"]
        if name == "unigram-bytes":
            vocab += [[token, -30.0] for token in byte_tokens]
            state["model"]["byte_fallback"] = True
        else:
            for token in byte_tokens:
                vocab[token] = len(vocab)
        tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_tokens([AddedToken("<b>", special=False, normalized=False), AddedToken("</b>", special=False, normalized=False)])
    if name in ("bpe-legacy", "bpe-llama3"):
        tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False, lstrip=name == "bpe-llama3", rstrip=True)])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    # As it is read from the file: scores there have fewer digits than in memory.
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    short = [word for word in WORDS if len(word) <= 30]
    write(ROOT / f"crates/text/tests/data/json-{name}.json", {
        "tokenizer": json.loads(tokenizer.to_str()),
        "config": {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [{"name": "default", "template": "x"}]},
        "ends": [i for i in map(tokenizer.token_to_id, ["</s>", "<end_of_turn>", "<|end|>"]) if i is not None],
        "adds_bos": len(tokenizer.encode("a").ids) > len(tokenizer.encode("a", add_special_tokens=False).ids),
        "cases": cases(Unspelled(tokenizer, special) if "unigram" in name else tokenizer, short, [] if name in ("bpe-no-bytes", "bpe-gpt2", "unigram") else REPEATS),
    })


if __name__ == "__main__":
    if len(WORDS) < 200 or len(set(WORDS)) != len(WORDS):
        raise SystemExit(f"{len(WORDS)} strings, {len(set(WORDS))} of them different; 200 are wanted")
    if sys.argv[1:2] == ["--only"]:
        for name in sys.argv[2:]:
            small(name)
        raise SystemExit
    for name in ["gpt-2", "smollm", "llama-bpe", "smaug-bpe", "qwen2", "tekken", "falcon", "deepseek-coder", "deepseek-llm", "deepseek-v3"]:
        small(name)
    words(["gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "falcon", "deepseek-coder", "deepseek-llm", "deepseek-v3"])
    small_pieces("spm", False, ["\n", "\n\n", "\n\n\n", "\u2581\u2581", "\u2581\u2581\u2581", "\t", "<b>", "</b>"])
    small_pieces("spm-prefix", True, [])
    for name in ["unigram", "unigram-bytes", "bpe-legacy", "bpe-pieces", "bpe-no-bytes", "bpe-llama3", "bpe-gpt2"]:
        small_json(name)
    byte_level_model("smollm", "smollm2", sys.argv[1])
    byte_level_model("qwen2", "qwen2.5-coder", sys.argv[2])
    pieces_model("gemma3", sys.argv[3])
