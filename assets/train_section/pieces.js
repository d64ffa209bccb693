// Files in pieces, since the host lets no uploads through: each piece is base64 in one call.

export function newToken() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// Sends bytes by `piece`, and gives the token that they are known by. Throws what the server refused them for.
export async function sendFile(piece, bytes, size) {
  const file = newToken();
  for (let at = 0; at === 0 || at < bytes.length; at += size) {
    const data = btoa(Array.from(bytes.subarray(at, at + size), (byte) => String.fromCharCode(byte)).join(''));
    accept(await piece({ file, at, data }));
  }
  return file;
}

// All bytes of a model's file, by `weights`.
export async function fetchFile(weights, model) {
  const parts = [];
  let at = 0;
  let total = 1;
  while (at < total) {
    const { data, bytes } = accept(await weights({ model, at }));
    const part = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    parts.push(part);
    at += part.length || bytes;
    total = bytes;
  }
  return new Blob(parts);
}

export function accept(answer) {
  if (answer.error) throw Object.assign(new Error(answer.error.message), { field: answer.error.field });
  return answer;
}
