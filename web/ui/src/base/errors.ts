/** An error whose message is meant for people. */
export class PlainError extends Error {
  /** @param code a stable word for the page's own branches */
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}
