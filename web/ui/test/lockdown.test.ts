import { describe, expect, it } from 'vitest';
import { lockDown } from '../src/code/lockdown';

describe('lockDown', () => {
  it('takes the ways out away, from a scope and from what it inherits', () => {
    class Scope {
      fetch() {
        return 'network';
      }
      get indexedDB() {
        return 'storage';
      }
      setTimeout() {
        return 'kept';
      }
    }
    const scope = Object.assign(new Scope(), { postMessage: () => 'page', Math, WebAssembly: 1 }) as unknown as Record<string, unknown>;
    Object.defineProperty(scope, 'importScripts', { value: () => 'code', configurable: false, writable: true });
    lockDown(scope);
    for (const name of ['fetch', 'indexedDB', 'postMessage', 'importScripts']) expect(scope[name]).toBeUndefined();
    expect([scope.Math, scope.WebAssembly, typeof scope.setTimeout]).toEqual([Math, 1, 'function']);
    expect(() => lockDown(scope)).not.toThrow();
  });

  it('leaves Object.prototype alone', () => {
    lockDown({});
    expect({}.toString()).toBe('[object Object]');
  });
});
