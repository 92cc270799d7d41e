import { createSubscriber } from 'svelte/reactivity';
import { locale } from './language.svelte';

// Numbers and times in the form of the page's language.

const numbers = new Map<string, Intl.NumberFormat>();

function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = locale() + JSON.stringify(options);
  let format = numbers.get(key);
  if (!format) numbers.set(key, (format = new Intl.NumberFormat(locale(), options)));
  return format;
}

// From here on a power of ten says more than its zeros.
const vast = 1e15;

/** A number; small ones with enough digits not to read as zero. */
export function number(value: number, digits = 2): string {
  const small = value !== 0 && Math.abs(value) < 0.1;
  const notation = Math.abs(value) < vast ? 'standard' : 'scientific';
  return numberFormat({ notation, ...(small ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: digits }) }).format(value);
}

/** A share, 100 being all of it: 38%, or 38 % in German. */
export function percentage(share: number, digits = 0): string {
  return numberFormat({ style: 'percent', maximumFractionDigits: digits }).format(share / 100);
}

/** A number in short form: 12.3K. */
export function compact(value: number): string {
  return numberFormat({ notation: Math.abs(value) < vast ? 'compact' : 'scientific', maximumFractionDigits: 1 }).format(value);
}

/** An amount of US dollars; small amounts with enough digits not to read as zero. */
export function money(usd: number): string {
  const digits = usd !== 0 && Math.abs(usd) < 0.1 ? 4 : 2;
  return numberFormat({ style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: digits }).format(usd);
}

/** Seconds with one digit, from milliseconds. */
export function seconds(ms: number): string {
  return numberFormat({ minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(ms / 1000);
}

const dates = new Map<string, Intl.DateTimeFormat>();

function dateText(iso: string | undefined, options: Intl.DateTimeFormatOptions): string {
  const at = Date.parse(iso ?? '');
  if (Number.isNaN(at)) return '';
  const key = locale() + JSON.stringify(options);
  let format = dates.get(key);
  if (!format) dates.set(key, (format = new Intl.DateTimeFormat(locale(), options)));
  return format.format(at);
}

const eachMinute = createSubscriber((update) => {
  const timer = setInterval(update, 60_000);
  return () => clearInterval(timer);
});

/** The time that it is: what shows it is drawn again when that changes, on a page that stays open over midnight, too. */
export function now(): Date {
  eachMinute();
  return new Date();
}

/** The time of day, after the day if that is another one than today; empty for an invalid time. */
export function clock(iso: string | undefined): string {
  const [at, today] = [new Date(iso ?? ''), now()];
  const year = at.getFullYear() === today.getFullYear() ? undefined : 'numeric';
  const date = at.toDateString() === today.toDateString() ? {} : ({ day: 'numeric', month: 'short', year } as const);
  return dateText(iso, { ...date, hour: 'numeric', minute: '2-digit' });
}

/** A day such as 2026-01-31, in words. */
export function day(date: string): string {
  return dateText(`${date}T12:00:00Z`, { day: 'numeric', month: 'short', year: 'numeric' }) || date;
}

/** A length of time as on a clock: 1:05, 1:00:05. */
export function duration(ms: number): string {
  const all = Math.max(0, Math.floor(ms / 1000));
  const parts = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60].filter((_, at) => at > 0 || all >= 3600);
  return parts.map((n, at) => (at === 0 ? String(n) : String(n).padStart(2, '0'))).join(':');
}

/** A wait in whole seconds, or minutes if it is long, in words. */
export function wait(seconds: number): string {
  const long = seconds > 90;
  return numberFormat({ style: 'unit', unit: long ? 'minute' : 'second', unitDisplay: 'long' }).format(Math.ceil(long ? seconds / 60 : seconds));
}

/** The letters of the days of a week, from Sunday. */
export function weekdays(): string[] {
  const format = new Intl.DateTimeFormat(locale(), { weekday: 'narrow', timeZone: 'UTC' });
  return [4, 5, 6, 7, 8, 9, 10].map((day) => format.format(Date.UTC(1970, 0, day)));
}

/** The short names of the months. */
export function months(): string[] {
  const format = new Intl.DateTimeFormat(locale(), { month: 'short', timeZone: 'UTC' });
  return Array.from({ length: 12 }, (_, month) => format.format(Date.UTC(1970, month, 15)));
}
