import { compact, number } from '../words/format';
import type { Look } from './look';

// What the options share. Values are plain data: no text of a model is ever used
// as a formatter or as markup.

export type Option = Record<string, unknown>;

export function formatNumber(value: unknown): string {
  return typeof value === 'number' && Number.isFinite(value) ? number(value) : String(value ?? '–');
}

export function formatShort(value: number): string {
  return Math.abs(value) >= 10_000 ? compact(value) : number(value);
}

/** The unit after a number: "%" follows directly, words after a space. */
export function withUnit(text: string, unit: string): string {
  if (unit === '') return text;
  if (/^[$€£¥]$/.test(unit)) return `${unit}${text}`;
  return /^[%°]/.test(unit) ? `${text}${unit}` : `${text} ${unit}`;
}

/** The parts that every chart has. */
export function frame(look: Look, more: Option): Option {
  return {
    color: look.series,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: look.font, color: look.text, fontSize: 12 },
    animationDuration: 500,
    ...more,
  };
}

/** A tooltip that can hold nothing but text. */
export function tooltip(look: Look, trigger: 'axis' | 'item', more: Option = {}): Option {
  return {
    trigger,
    renderMode: 'richText',
    confine: true,
    backgroundColor: look.surface,
    borderColor: look.line,
    textStyle: { color: look.text, fontFamily: look.font, fontSize: 12 },
    valueFormatter: formatNumber,
    ...more,
  };
}

export function legend(look: Look, names: string[]): Option {
  return {
    show: names.length > 1,
    type: 'scroll',
    bottom: 0,
    icon: 'roundRect',
    itemWidth: 10,
    itemHeight: 10,
    itemGap: 16,
    formatter: (name: string) => short(name),
    textStyle: { color: look.muted },
    pageTextStyle: { color: look.muted },
    pageIconColor: look.muted,
    data: names,
  };
}

/** Cuts a label that would push others away. */
export function short(text: string, length = 24): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
