import { asNumber, asObjects, asText, type Json } from '../base/json';
import { percentage } from '../words/format';
import { formatNumber, formatShort, frame, legend, short, tooltip, withUnit, type Option } from './frame';
import { safeColor, type Look } from './look';

// Charts around a point and the funnel: pie, radar, funnel, gauge, radial bar.

interface Slice {
  name: string;
  value: number;
  fill?: unknown;
}

function slices(data: Json, nameKey: string): Slice[] {
  return asObjects(data.data).map((row) => ({
    name: asText(row[nameKey]),
    value: asNumber(row.value, 0),
    fill: row.fill,
  }));
}

function unitFormatter(data: Json): (value: unknown) => string {
  const unit = asText(data.unit);
  return (value) => withUnit(formatNumber(value), unit);
}

// Percent; the number of a thinner slice would not fit into it.
const smallestLabelled = 6;

export function pieOption(data: Json, look: Look): Option {
  const rows = slices(data, 'label');
  return frame(look, {
    tooltip: tooltip(look, 'item', {
      formatter: (p: { name: string; value: number; percent: number }) =>
        `${p.name}\n${unitFormatter(data)(p.value)} (${percentage(p.percent, 2)})`,
    }),
    legend: legend(look, rows.map((row) => row.name)),
    series: [
      {
        type: 'pie',
        stillShowZeroSum: false, // equal slices would be untrue
        radius: ['48%', '82%'],
        center: ['50%', '45%'],
        itemStyle: { borderColor: look.surface, borderWidth: 2, borderRadius: 5 },
        // The names are in the legend: beside the ring they would not fit on a phone.
        label: {
          position: 'inside',
          color: look.onSeries,
          fontWeight: 600,
          formatter: (p: { percent: number }) => (p.percent < smallestLabelled ? '' : percentage(p.percent)),
        },
        data: rows.map(({ name, value }) => ({ name, value })),
      },
    ],
  });
}

export function radarOption(data: Json, look: Look): Option {
  const rows = asObjects(data.data);
  const entries = rows.map((row) => asObjects(row.series));
  const names = [...new Set(entries.flat().map((entry) => asText(entry.seriesName, 'Series')))];
  const everyValue = entries.flat().map((entry) => asNumber(entry.value, 0));
  const indicator = rows.map((row, at) => {
    const given = (entries[at] ?? []).map((entry) => asNumber(entry.fullMark)).filter((mark) => mark !== undefined);
    return { name: short(asText(row.metric), 22), max: Math.max(...given, ...(given.length ? [] : everyValue), 1e-9) };
  });
  const valueOf = (name: string, at: number) =>
    asNumber((entries[at] ?? []).find((entry) => asText(entry.seriesName, 'Series') === name)?.value, 0);
  return frame(look, {
    tooltip: tooltip(look, 'item'),
    legend: legend(look, names),
    radar: {
      indicator,
      radius: '64%',
      center: ['50%', '47%'],
      axisName: { color: look.muted },
      splitLine: { lineStyle: { color: look.line } },
      axisLine: { lineStyle: { color: look.line } },
      splitArea: { show: false },
    },
    series: [
      {
        type: 'radar',
        symbolSize: 5,
        areaStyle: { opacity: 0.14 },
        lineStyle: { width: 2 },
        data: names.map((name) => ({ name, value: rows.map((_, at) => valueOf(name, at)) })),
      },
    ],
  });
}

export function funnelOption(data: Json, look: Look): Option {
  const rows = slices(data, 'stage').sort((a, b) => b.value - a.value);
  const words = unitFormatter(data);
  return frame(look, {
    tooltip: tooltip(look, 'item', { valueFormatter: words }),
    series: [
      {
        type: 'funnel',
        left: '4%',
        width: '62%',
        top: 8,
        bottom: 8,
        minSize: '6%',
        gap: 3,
        sort: 'descending',
        itemStyle: { borderWidth: 0, borderRadius: 4 },
        label: {
          position: 'right',
          color: look.text,
          lineHeight: 16,
          formatter: (p: { name: string; value: number }) => `${short(p.name, 20)}\n${words(p.value)}`,
        },
        labelLine: { length: 12, lineStyle: { color: look.line } },
        labelLayout: { hideOverlap: true },
        data: rows.map(({ name, value, fill }, at) => ({
          name,
          value,
          itemStyle: { color: safeColor(fill, look.series[at % look.series.length] ?? look.text) },
        })),
      },
    ],
  });
}

interface Dial {
  startAngle: number;
  endAngle: number;
  center: [string, string];
  radius: string;
  width: number;
  pointer: boolean;
}

const dials: Record<string, Dial> = {
  speedometer: { startAngle: 215, endAngle: -35, center: ['50%', '58%'], radius: '92%', width: 16, pointer: true },
  'semi-circle': { startAngle: 180, endAngle: 0, center: ['50%', '74%'], radius: '118%', width: 22, pointer: false },
  radial: { startAngle: 90, endAngle: -269.99, center: ['50%', '50%'], radius: '88%', width: 20, pointer: false },
};

// Threshold i colours the dial from its value to the next one's.
function bands(data: Json, look: Look, min: number, max: number): [number, string][] {
  const marks = asObjects(data.thresholds)
    .map((mark) => ({ at: asNumber(mark.value), color: safeColor(mark.color, look.muted) }))
    .filter((mark): mark is { at: number; color: string } => mark.at !== undefined)
    .sort((a, b) => a.at - b.at);
  const share = (value: number) => Math.min(1, Math.max(0, (value - min) / (max - min || 1)));
  const list: [number, string][] = marks.map((mark, i) => [share(marks[i + 1]?.at ?? max), mark.color]);
  const first = marks[0];
  if (first && share(first.at) > 0) list.unshift([share(first.at), look.line]);
  return list.length > 0 ? list : [[1, look.line]];
}

export function gaugeOption(data: Json, look: Look): Option {
  const dial = dials[asText(data.gaugeType)] ?? (dials.speedometer as Dial);
  const min = asNumber(data.minValue, 0);
  const max = asNumber(data.maxValue, 100);
  const value = asNumber(data.value, min);
  const banded = asObjects(data.thresholds).length > 0;
  const words = unitFormatter(data);
  return frame(look, {
    series: [
      {
        type: 'gauge',
        ...dial,
        min,
        max,
        splitNumber: 5,
        axisLine: { roundCap: !banded, lineStyle: { width: dial.width, color: bands(data, look, min, max) } },
        progress: { show: !banded, roundCap: true, width: dial.width, itemStyle: { color: look.series[0] } },
        pointer: { show: dial.pointer || banded, width: 5, length: '62%', itemStyle: { color: look.text } },
        anchor: { show: dial.pointer || banded, size: 10, itemStyle: { color: look.text } },
        axisTick: { show: false },
        splitLine: { show: dial.pointer, distance: 4, length: 5, lineStyle: { color: look.muted, width: 1 } },
        axisLabel: { show: dial.pointer, distance: 12, color: look.muted, formatter: formatShort, fontSize: 11 },
        detail: {
          valueAnimation: false,
          offsetCenter: [0, dial.pointer || banded ? '40%' : '0%'],
          color: look.text,
          fontSize: 26,
          fontWeight: 600,
          formatter: words,
        },
        title: { show: false },
        data: [{ value }],
      },
    ],
  });
}

export function radialBarOption(data: Json, look: Look): Option {
  const rows = asObjects(data.data);
  const values = rows.map((row) => asNumber(row.value, 0));
  const fallback = Math.max(...values, 0) * 1.2 || 1;
  const shares = rows.map((row, at) => (100 * (values[at] ?? 0)) / (asNumber(row.maxValue, fallback) || 1));
  const names = rows.map((row) => asText(row.name));
  const inner = asNumber(data.innerRadius, 30);
  const outer = asNumber(data.outerRadius, 80);
  return frame(look, {
    tooltip: tooltip(look, 'item', {
      formatter: (p: { dataIndex: number }) => `${names[p.dataIndex] ?? ''}\n${formatNumber(values[p.dataIndex])}`,
    }),
    polar: { radius: [`${inner}%`, `${outer}%`] },
    angleAxis: { max: 100, startAngle: 90, show: false },
    radiusAxis: {
      type: 'category',
      data: names.map((name) => short(name, 16)),
      z: 10,
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: look.text, fontSize: 11, interval: 0, hideOverlap: true, margin: 14 },
    },
    series: [
      {
        type: 'bar',
        coordinateSystem: 'polar',
        roundCap: true,
        barMaxWidth: 18,
        showBackground: true,
        backgroundStyle: { color: look.empty },
        data: shares.map((value, at) => ({
          value: Math.min(100, Math.max(0, value)),
          itemStyle: { color: look.series[at % look.series.length] },
        })),
      },
    ],
  });
}
