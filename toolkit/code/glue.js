// The console, the timers, and the report of the outcome. The program runs after this in the same
// realm and may change every built-in object; so whatever is used later is taken here, before, and
// neither methods of prototypes nor indices of arrays are touched afterwards.
(() => {
  'use strict';
  const print = globalThis.__print;
  delete globalThis.__print;

  const uncurry = Function.prototype.bind.bind(Function.prototype.call);
  const getter = (prototype, name) => uncurry(Object.getOwnPropertyDescriptor(prototype, name).get);
  const { ownKeys, getOwnPropertyDescriptor, getPrototypeOf, apply } = Reflect;
  const { isArray } = Array;
  const { isError } = Error;
  const { isFinite } = Number;
  const { min, max } = Math;
  const { stringify } = JSON;
  const { now } = Date;
  const text = String;
  const ErrorType = Error, TypeErrorType = TypeError, RangeErrorType = RangeError, Buffer = ArrayBuffer;
  const tagOf = uncurry(Object.prototype.toString);
  const slice = uncurry(String.prototype.slice);
  const symbolText = uncurry(Symbol.prototype.toString);
  const functionText = uncurry(Function.prototype.toString);
  const isoDate = uncurry(Date.prototype.toISOString);
  const dateValue = uncurry(Date.prototype.valueOf);
  const regExpText = uncurry(RegExp.prototype.toString);
  const regExpSource = getter(RegExp.prototype, 'source');
  const mapSize = getter(Map.prototype, 'size');
  const setSize = getter(Set.prototype, 'size');
  const mapEach = uncurry(Map.prototype.forEach);
  const setEach = uncurry(Set.prototype.forEach);
  const typedName = getter(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag);
  const typedLength = getter(getPrototypeOf(Uint8Array.prototype), 'length');
  const bufferLength = getter(ArrayBuffer.prototype, 'byteLength');

  const maxNesting = 6, maxItems = 200, maxNodes = 5000, maxText = 200000;

  // is reports whether a check of a built-in kind takes the value.
  const is = (check, value) => {
    try { check(value); return true; } catch { return false; }
  };

  // read returns value[key], or undefined when that throws.
  const read = (value, key) => {
    try { return value[key]; } catch { return undefined; }
  };

  const errorHead = (error) => {
    const name = read(error, 'name'), message = read(error, 'message');
    return (typeof name === 'string' ? name : 'Error') + (typeof message === 'string' && message !== '' ? ': ' + message : '');
  };

  const errorText = (error) => {
    const stack = read(error, 'stack');
    return errorHead(error) + (typeof stack === 'string' && stack !== '' ? '\n' + stack : '');
  };

  // inspect writes a value for people, in the manner of consoles.
  const inspect = (value) => {
    let nodes = 0, length = 0;
    const write = (v, depth, parents) => {
      if (++nodes > maxNodes || length > maxText) return '…';
      const out = form(v, depth, parents);
      length += min(out.length, 1000);
      return out;
    };
    const form = (v, depth, parents) => {
      switch (typeof v) {
        case 'string': return depth === 0 ? v : stringify(v);
        case 'number': return v === 0 && 1 / v < 0 ? '-0' : text(v);
        case 'bigint': return text(v) + 'n';
        case 'symbol': return symbolText(v);
        case 'function': {
          const name = getOwnPropertyDescriptor(v, 'name')?.value;
          const kind = slice(functionText(v), 0, 5) === 'class' ? 'class' : 'Function';
          return typeof name === 'string' && name !== '' ? `[${kind} ${name}]` : `[${kind}]`;
        }
        case 'object': return v === null ? 'null' : object(v, depth, parents);
        default: return text(v);
      }
    };
    const object = (v, depth, parents) => {
      for (let p = parents; p !== null; p = p.up) if (p.value === v) return '[Circular]';
      if (isError(v)) return depth === 0 ? errorText(v) : `[${errorHead(v)}]`;
      if (is(dateValue, v)) { const t = dateValue(v); return t === t ? isoDate(v) : 'Invalid Date'; }
      if (is(regExpSource, v)) return regExpText(v);
      if (is(bufferLength, v)) return `ArrayBuffer(${bufferLength(v)})`;
      const family = { __proto__: null, value: v, up: parents };
      const child = (w) => write(w, depth + 1, family);
      if (is(mapSize, v)) return entries(`Map(${mapSize(v)}) {`, '}', depth, (add) => mapEach(v, (w, k) => add(() => `${child(k)} => ${child(w)}`)));
      if (is(setSize, v)) return entries(`Set(${setSize(v)}) {`, '}', depth, (add) => setEach(v, (w) => add(() => child(w))));
      const typed = typedName(v);
      if (typed !== undefined) return entries(`${typed}(${typedLength(v)}) [`, ']', depth, (add) => { for (let i = 0, n = typedLength(v); i < n && add(() => child(v[i])); i++); });
      if (isArray(v)) return entries('[', ']', depth, (add) => { for (let i = 0, n = v.length; i < n && add(() => child(v[i])); i++); });
      return entries(title(v) + '{', '}', depth, (add) => {
        const keys = ownKeys(v), count = keys.length;
        for (let i = 0, more = true; i < count && more; i++) {
          const key = keys[i], property = getOwnPropertyDescriptor(v, key);
          if (property === undefined || !property.enumerable) continue;
          const label = typeof key === 'symbol' ? `[${symbolText(key)}]` : key;
          more = add(() => `${label}: ${'value' in property ? child(property.value) : '[Getter]'}`);
        }
      });
    };
    const title = (v) => {
      const prototype = getPrototypeOf(v);
      if (prototype === null) return '[null prototype] ';
      const name = getOwnPropertyDescriptor(prototype, 'constructor')?.value?.name;
      if (name === 'Object') return '';
      return typeof name === 'string' && name !== '' ? name + ' ' : slice(tagOf(v), 8, -1) + ' ';
    };
    const entries = (open, close, depth, each) => {
      if (depth >= maxNesting) return open + '…' + close;
      let out = '', count = 0;
      each((make) => {
        if (count > maxItems || nodes > maxNodes || length > maxText) return false;
        out += (count === 0 ? ' ' : ', ') + (count === maxItems ? '…' : make());
        return count++ < maxItems;
      });
      return open + (out === '' ? '' : out + ' ') + close;
    };
    try { return write(value, 0, null); } catch { return '[unprintable value]'; }
  };

  // plain replaces what JSON has no form for.
  const plain = (_, v) => {
    switch (typeof v) {
      case 'bigint': return text(v);
      case 'number': return isFinite(v) ? v : text(v);
      case 'symbol': case 'function': return inspect(v);
      case 'object':
        if (v !== null && (isError(v) || is(mapSize, v) || is(setSize, v) || is(regExpSource, v))) return inspect(v);
    }
    return v;
  };

  // json writes a value as JSON, or as a string in JSON.
  const json = (value) => {
    if (value === undefined) return 'null';
    try {
      const out = stringify(value, plain);
      if (typeof out === 'string') return out;
    } catch { /* circular, or a toJSON that throws */ }
    return stringify(inspect(value));
  };

  // console
  let indent = '';
  const line = (stream) => (...values) => {
    let out = indent;
    for (let i = 0; i < values.length && out.length <= maxText; i++) out += (i === 0 ? '' : ' ') + slice(inspect(values[i]), 0, maxText);
    print(stream, slice(out, 0, maxText) + '\n');
  };
  const log = line('stdout'), warn = line('stderr');
  const clocks = { __proto__: null };
  const elapsed = (label = 'default') => log(`${label}: ${now() - (clocks[label] ?? now())} ms`);
  globalThis.console = {
    log, info: log, debug: log, dir: (value) => log(value), table: (value) => log(value),
    warn, error: warn, trace: warn,
    assert: (ok, ...values) => { if (!ok) apply(warn, undefined, ['Assertion failed', ...values]); },
    group: (...values) => { if (values.length > 0) apply(log, undefined, values); indent += '  '; },
    groupCollapsed: (...values) => { if (values.length > 0) apply(log, undefined, values); indent += '  '; },
    groupEnd: () => { indent = slice(indent, 2); },
    time: (label = 'default') => { clocks[label] = now(); },
    timeLog: elapsed, timeEnd: elapsed,
  };

  // Timers: a list in the order in which they are due.
  const maxTimers = 1000;
  let timers = null, timerId = 0, waiting = 0;
  const insert = (timer) => {
    let before = null, after = timers;
    while (after !== null && after.due <= timer.due) { before = after; after = after.next; }
    timer.next = after;
    if (before === null) timers = timer; else before.next = timer;
  };
  const start = (call, delay, every, values) => {
    if (typeof call !== 'function') throw new TypeErrorType('the first argument of a timer must be a function');
    if (waiting >= maxTimers) throw new RangeErrorType(`there are ${maxTimers} timers already`);
    waiting++;
    const wait = max(every ? 1 : 0, +delay || 0);
    insert({ __proto__: null, id: ++timerId, due: now() + wait, wait: every ? wait : -1, call, values, next: null });
    return timerId;
  };
  const stop = (id) => {
    for (let before = null, t = timers; t !== null; before = t, t = t.next) {
      if (t.id !== id) continue;
      if (before === null) timers = t.next; else before.next = t.next;
      waiting--;
      return;
    }
    if (firing !== null && firing.id === id) firing = null;
  };
  let firing = null;
  globalThis.setTimeout = (call, delay, ...values) => start(call, delay, false, values);
  globalThis.setInterval = (call, delay, ...values) => start(call, delay, true, values);
  globalThis.clearTimeout = stop;
  globalThis.clearInterval = stop;
  const resolved = Promise.resolve(), then = uncurry(Promise.prototype.then);
  globalThis.queueMicrotask = (call) => { then(resolved, () => call()); };

  // The outcome.
  let state = 'pending', outcome;
  const reject = (error) => { state = 'rejected'; outcome = error; };
  const watch = async (promise) => {
    try {
      const { value } = await promise;
      const settled = await value; // a program may end with the call of an async function
      if (state === 'pending') { state = 'fulfilled'; outcome = settled; }
    } catch (error) { reject(error); }
  };

  return (what, value) => {
    switch (what) {
      case 'watch': watch(value); return;
      case 'state': return state;
      case 'value': outcome = json(outcome); return slice(outcome, 0, value); // a long text takes more memory with each copy
      case 'length': return outcome.length;
      case 'name': return isError(outcome) ? slice(text(read(outcome, 'name') ?? 'Error'), 0, maxText) : '';
      case 'message': return isError(outcome) ? slice(text(read(outcome, 'message') ?? ''), 0, maxText) : slice(inspect(outcome), 0, maxText);
      case 'stack': return isError(outcome) ? slice(text(read(outcome, 'stack') ?? ''), 0, maxText) : '';
      case 'room': try { return new Buffer(1 << 20) !== null; } catch { return false; }
      case 'next': return timers === null ? -1 : max(0, timers.due - now());
      case 'fire': {
        firing = timers;
        timers = firing.next;
        const { call, values, wait } = firing;
        try { apply(call, undefined, values); } catch (error) { reject(error); }
        if (firing !== null && wait >= 0) { firing.due = now() + wait; insert(firing); } else waiting--;
        firing = null;
        return;
      }
      default: throw new ErrorType('unknown request');
    }
  };
})()
