/** A random id. crypto.randomUUID is missing on a page without HTTPS, where people type, too. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
