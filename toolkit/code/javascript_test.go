//go:build linux

package code

import (
	"strings"
	"testing"
)

func TestJavaScriptValues(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	for _, c := range []struct{ code, value, stdout, stderr string }{
		{code: `1+1`, value: `2`},
		{code: `const a = [1,2]; a.map(x => x * 2)`, value: `[2,4]`},
		{code: `({a: 1, b: "é<&>", c: null, d: undefined})`, value: `{"a":1,"b":"é<&>","c":null}`},
		{code: `let x = 5`, value: `null`},
		{code: `undefined`, value: `null`},
		{code: `"text"`, value: `"text"`},
		{code: `2n ** 70n`, value: `"1180591620717411303424"`},
		{code: `[0/0, 1/0, Symbol("s"), function f() {}]`, value: `["NaN","Infinity","Symbol(s)","[Function f]"]`},
		{code: `new Map([["a", {b: [1]}]])`, value: `"Map(1) { \"a\" => { b: [ 1 ] } }"`},
		{code: `new Date(0)`, value: `"1970-01-01T00:00:00.000Z"`},
		{code: `const o = {}; o.o = o; o`, value: `"{ o: [Circular] }"`},
		{code: `new Error("x").message`, value: `"x"`},
		{code: `await Promise.resolve(7)`, value: `7`},
		{code: `async function main() { return await 8 } main()`, value: `8`},
		{code: `for await (const x of (async function*() { yield 1 })()) console.log(x); 9`, value: `9`, stdout: "1\n"},
		{code: `await new Promise(r => setTimeout(r, 5, 10))`, value: `10`},
		{code: `setTimeout(() => console.log("b"), 500); setTimeout(() => console.log("a"), 1); queueMicrotask(() => console.log("0")); 1`, value: `1`, stdout: "0\na\nb\n"},
		{code: `let n = 0; const id = setInterval(() => { console.log(++n); if (n === 3) clearInterval(id) }, 1); 1`, value: `1`, stdout: "1\n2\n3\n"},
		{code: `const id = setTimeout(() => console.log("never"), 1); clearTimeout(id); 1`, value: `1`},
		{code: `console.log("a", 1, [1, "b"], {c: new Set([1])}, null, undefined, -0, () => 1); console.error("e"); console.warn("w"); 0`,
			value: `0`, stdout: "a 1 [ 1, \"b\" ] { c: Set(1) { 1 } } null undefined -0 [Function]\n", stderr: "e\nw\n"},
		{code: `console.group("g"); console.log("in"); console.groupEnd(); console.assert(false, "no"); class A { x = 1 }; console.log(new A, A, /x/g, new Uint8Array(2), [new Error("m")])`,
			value: `null`, stdout: "g\n  in\nA { x: 1 } [class A] /x/g Uint8Array(2) [ 0, 0 ] [ [Error: m] ]\n", stderr: "Assertion failed no\n"},
		{code: `"\ud800x"`, value: `"\ud800x"`},
		{code: `console.log("\ud800", "a\0b"); 1`, value: `1`, stdout: "\uFFFD a\x00b\n"},
		{code: "'use strict'; 1", value: `1`},
		{code: `"ünïcödé".normalize("NFD").replace(/\p{M}/gu, "")`, value: `"unicode"`},
		{code: `new Date(2024, 0, 1).getTimezoneOffset()`, value: `0`},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			o := r.javaScript(c.code)
			if o.Exit != ExitCompleted || string(o.Value) != c.value || o.Stdout != c.stdout || o.Stderr != c.stderr {
				t.Errorf("got %s (%s), value %s, stdout %q, stderr %q", o.Exit, o.Error, o.Value, o.Stdout, o.Stderr)
			}
		})
	}
}

func TestJavaScriptExceptions(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	for _, c := range []struct{ code, want string }{
		{`console.log("before"); throw new TypeError("bad")`, "TypeError: bad"},
		{`nothing.here`, "ReferenceError: 'nothing' is not defined"},
		{`let x = ;`, "SyntaxError: "},
		{"1;\n2;\nlet let = 1", "at line 3"},
		{`throw {a: 1}`, "{ a: 1 }"},
		{`throw null`, "null"},
		{`throw "text"`, "text"},
		{`await Promise.reject(new RangeError("later"))`, "RangeError: later"},
		{`(async () => { throw new Error("last") })()`, "Error: last"},
		{`setTimeout(() => { throw new Error("timer") }); 1`, "Error: timer"},
		{`await new Promise(() => {})`, "nothing will settle"},
		{`return 1`, "SyntaxError"},
		{`import x from "std"`, "SyntaxError"},
		{"\x00\x01", "SyntaxError"},
		{`throw new Proxy(new Error("x"), { get() { throw 1 } })`, ""},
		{`const e = new Error("x"); Object.defineProperty(e, "message", { get() { throw 1 } }); throw e`, "Error"},
		{`setTimeout("alert(1)")`, "TypeError"},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			o := r.javaScript(c.code)
			if o.Exit != ExitException || !strings.Contains(o.Error, c.want) {
				t.Errorf("got %s: %s, want an exception with %q", o.Exit, o.Error, c.want)
			}
			if strings.Contains(c.code, "before") && o.Stdout != "before\n" {
				t.Errorf("stdout %q is lost", o.Stdout)
			}
		})
	}
}
