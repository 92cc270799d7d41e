/** The id of the thread that an address shows; empty for none. */
export function threadOfHash(hash: string): string {
  const match = /^#\/t\/([^/]+)$/.exec(hash);
  try {
    return match?.[1] ? decodeURIComponent(match[1]) : '';
  } catch {
    return '';
  }
}

/** The address of a thread within the page. */
export function hashOf(thread: string): string {
  return thread ? `#/t/${encodeURIComponent(thread)}` : '#/';
}
