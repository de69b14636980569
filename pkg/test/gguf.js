// GGUF files taken apart and put together, in a page and in Node: to split, damage and forge them.

const SCALAR_BYTES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const [U16, U32, I32, STRING, ARRAY] = [2, 4, 5, 8, 9];
const ALIGNMENT = 32;

/** The entries `[key, bytes of type and value]` and tensors `{ name, dims, type, data }` of a file. */
export function parse(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let at = 8;
  const u32 = () => view.getUint32((at += 4) - 4, true);
  const u64 = () => Number(view.getBigUint64((at += 8) - 8, true));
  const text = () => {
    const length = u64();
    return new TextDecoder().decode(file.subarray(at, (at += length)));
  };
  const skip = (type) => {
    if (type === STRING) {
      const length = u64();
      at += length;
    } else if (type === ARRAY) {
      const [element, count] = [u32(), u64()];
      for (let i = 0; i < count; i++) skip(element);
    } else at += SCALAR_BYTES[type];
  };
  const [tensorCount, entryCount] = [u64(), u64()];
  const entries = [];
  for (let i = 0; i < entryCount; i++) {
    const key = text();
    const from = at;
    skip(u32());
    entries.push([key, file.subarray(from, at)]);
  }
  const listed = [];
  for (let i = 0; i < tensorCount; i++) {
    const name = text();
    const dims = Array.from({ length: u32() }, u64);
    listed.push({ name, dims, type: u32(), offset: u64() });
  }
  const data = Math.ceil(at / ALIGNMENT) * ALIGNMENT;
  const ends = listed.map(({ offset }) => offset).concat(file.length - data).sort((a, b) => a - b);
  const tensors = listed.map(({ offset, ...tensor }) => {
    const end = ends.find((other) => other > offset);
    return { ...tensor, data: file.subarray(data + offset, data + end) };
  });
  return { entries, tensors };
}

/** The header of a file with these entries and tensors, padded up to the data; and where each tensor's data begins after it. */
export function header({ entries, tensors }) {
  const bytes = [];
  const number = (value, size) => {
    for (let i = 0; i < size; i++, value = Math.floor(value / 256)) bytes.push(value % 256);
  };
  const text = (string) => {
    const encoded = new TextEncoder().encode(string);
    number(encoded.length, 8);
    bytes.push(...encoded);
  };
  bytes.push(...new TextEncoder().encode("GGUF"));
  number(3, 4);
  number(tensors.length, 8);
  number(entries.length, 8);
  for (const [key, value] of entries) {
    text(key);
    for (const byte of value) bytes.push(byte);
  }
  let offset = 0;
  const offsets = [];
  for (const { name, dims, type, data } of tensors) {
    text(name);
    number(dims.length, 4);
    for (const dim of dims) number(dim, 8);
    number(type, 4);
    number(offset, 8);
    offsets.push(offset);
    offset = Math.ceil((offset + data.length) / ALIGNMENT) * ALIGNMENT;
  }
  while (bytes.length % ALIGNMENT > 0) bytes.push(0);
  return { bytes: Uint8Array.from(bytes), offsets, size: bytes.length + offset };
}

/** A file with these entries and tensors. */
export function build(model) {
  const { bytes, offsets, size } = header(model);
  const file = new Uint8Array(size);
  file.set(bytes);
  model.tensors.forEach(({ data }, i) => file.set(data, bytes.length + offsets[i]));
  return file;
}

const entry = (key, type, size) => (value) => {
  const bytes = new Uint8Array(4 + size);
  bytes[0] = type;
  for (let i = 0; i < size; i++) bytes[4 + i] = Math.floor(value / 256 ** i) % 256;
  return [key, bytes];
};

/** An entry of type u32. */
export const u32 = (key, value) => entry(key, U32, 4)(value);

/** The model with an entry replaced. */
export function withEntry({ entries, tensors }, [key, value]) {
  return { entries: entries.map(([other, old]) => [other, other === key ? value : old]), tensors };
}

/** The model in `count` files, as tools split them: the first has the entries, each has its share of the tensors. */
export function split({ entries, tensors }, count) {
  const share = Math.ceil(tensors.length / count);
  return Array.from({ length: count }, (_, part) => build({
    entries: [
      ...(part === 0 ? entries : []),
      entry("split.no", U16, 2)(part), entry("split.count", U16, 2)(count), entry("split.tensors.count", I32, 4)(tensors.length),
    ],
    tensors: tensors.slice(part * share, (part + 1) * share),
  }));
}
