import { maxCode } from './outcome';

// What a model is told of the tools that run its programs: what the server tells
// of its own (toolkit/code), for they are the same to it.

export interface Definition {
  description: string;
  parameters: object;
}

function definition(description: string, code: string): Definition {
  return {
    description,
    parameters: {
      type: 'object',
      properties: { code: { type: 'string', description: code, minLength: 1, maxLength: maxCode } },
      required: ['code'],
      additionalProperties: false,
    },
  };
}

export const python = definition(
  'Run a short Python 3 program and get what it printed and the value of its last expression. ' +
    'Use it for exact arithmetic, statistics, dates, text and data. Top-level await works. ' +
    'There is the standard library, but no network and no other process, and no file stays.',
  'The program. End it with the expression whose value you want, or print.',
);

export const javaScript = definition(
  'Run a short JavaScript program (ES2023) and get what it printed and the value of its last expression. ' +
    'Use it for exact arithmetic, dates, text and data. Top-level await works; return does not. ' +
    'There is console, setTimeout and plain JavaScript: no network, no files, no modules, no DOM, no Node.js.',
  'The program. End it with the expression whose value you want, or print with console.log.',
);
