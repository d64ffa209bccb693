// Streaming UTF-8: token bytes in, text out, an unfinished character held back. Bytes that can never become a character
// are written \xNN, as the recorder does, so that page and recording agree and no replacement sign ever appears.

const encoder = new TextEncoder();

export function tokenBytes(token) {
  if (token.bytes === undefined) return encoder.encode(token.text);
  return Uint8Array.from(token.bytes.match(/../g), (pair) => parseInt(pair, 16));
}

export function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0').toUpperCase()).join(' ');
}

// One token's contribution after the bytes `pending`: {text, pending}.
export function decodeToken(token, pending) {
  if (pending.length === 0 && token.bytes === undefined) return { text: token.text, pending };
  const bytes = [...pending, ...tokenBytes(token)];
  let text = '';
  let i = 0;
  while (i < bytes.length) {
    const size = sequenceLength(bytes[i]);
    let good = 1;
    while (good < size && i + good < bytes.length && continues(bytes[i], bytes[i + good], good)) good += 1;
    if (good === size) {
      text += String.fromCodePoint(codePoint(bytes.slice(i, i + size)));
    } else if (size > 0 && i + good === bytes.length) {
      return { text, pending: bytes.slice(i) };
    } else {
      for (const byte of bytes.slice(i, i + good)) text += `\\x${byte.toString(16).padStart(2, '0')}`;
    }
    i += good;
  }
  return { text, pending: [] };
}

// Bytes in the sequence that this one begins; 0 where none can begin with it.
function sequenceLength(lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

function continues(lead, byte, index) {
  if (index === 1) {
    if (lead === 0xe0) return byte >= 0xa0 && byte <= 0xbf;
    if (lead === 0xed) return byte >= 0x80 && byte <= 0x9f;
    if (lead === 0xf0) return byte >= 0x90 && byte <= 0xbf;
    if (lead === 0xf4) return byte >= 0x80 && byte <= 0x8f;
  }
  return byte >= 0x80 && byte <= 0xbf;
}

function codePoint(bytes) {
  if (bytes.length === 1) return bytes[0];
  const lead = bytes[0] & (0xff >> (bytes.length + 1));
  return bytes.slice(1).reduce((value, byte) => (value << 6) | (byte & 0x3f), lead);
}
