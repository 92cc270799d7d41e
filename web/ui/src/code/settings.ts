import type { Limits } from './outcome';

/** What the server says of the tools that run programs. */
export interface CodeSettings {
  /** The tools that the page is to offer. */
  tools: string[];
  limits: Limits;
  /** Where Pyodide's files are; empty is nowhere. */
  pyodide: string;
}
