import { asNumber, asObjects, asText, type Json } from '../base/json';
import { formatNumber, frame, tooltip, type Option } from './frame';
import { months, weekdays } from '../words/format';
import { w } from '../words/charts';
import { scaleColors, type Look } from './look';

// Charts of parts, flows and days: treemap, sankey, calendar.

interface TreeNode {
  name: string;
  value: number;
  itemStyle: { color: string; borderColor?: string };
  children?: TreeNode[];
}

// Deep enough for white text on both themes.
const tiles = ['#2f7d6b', '#5362be', '#9a6216', '#a34557', '#2f7599', '#765a9b', '#66722a', '#8a5439'];

/** Mixes a hex colour with white. */
export function lighter(color: string, share: number): string {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `#${parts.map((part) => Math.round(part + (255 - part) * share).toString(16).padStart(2, '0')).join('')}`;
}

function treeNode(raw: Json, at: number): TreeNode {
  const color = tiles[at % tiles.length] ?? '';
  const parts = asObjects(raw.children);
  const children = parts.map((child, i) => ({
    name: asText(child.name),
    value: asNumber(child.value, 0),
    // Parts of one tile are shades of it.
    itemStyle: { color: lighter(color, (0.2 * i) / parts.length) },
  }));
  const sum = children.reduce((total, child) => total + child.value, 0);
  const node = { name: asText(raw.name), value: asNumber(raw.value, sum), itemStyle: { color } };
  return children.length > 0 ? { ...node, itemStyle: { color, borderColor: color }, children } : node;
}

export function treemapOption(data: Json, look: Look): Option {
  return frame(look, {
    tooltip: tooltip(look, 'item'),
    series: [
      {
        type: 'treemap',
        top: 4,
        left: 0,
        right: 0,
        bottom: 4,
        roam: false,
        nodeClick: false,
        breadcrumb: { show: false },
        label: { color: '#fff', fontSize: 12, overflow: 'truncate' },
        upperLabel: { show: true, height: 22, color: '#fff', overflow: 'truncate' },
        // The gaps show what is behind the chart.
        itemStyle: { borderColor: look.surface },
        levels: [
          { itemStyle: { borderColor: look.surface, borderWidth: 0, gapWidth: 4 }, upperLabel: { show: false } },
          { itemStyle: { borderColor: look.surface, borderWidth: 2, gapWidth: 2, borderRadius: 4 } },
          { itemStyle: { borderColor: look.surface, borderRadius: 3 } },
        ],
        data: asObjects(data.data).map(treeNode),
      },
    ],
  });
}

/** How wide the labels beside the last nodes may be, in pixels. */
const sankeyLabel = 116;

export function sankeyOption(data: Json, look: Look): Option {
  const nodes = asObjects(data.nodes).map((node) => ({ id: asText(node.id), label: asText(node.name, asText(node.id)) }));
  const labels = new Map(nodes.map((node) => [node.id, node.label]));
  const label = (id: unknown) => labels.get(String(id)) ?? String(id);
  const links = asObjects(data.links)
    .map((link) => ({ source: asText(link.source), target: asText(link.target), value: asNumber(link.value, 0) }))
    .filter((link) => labels.has(link.source) && labels.has(link.target) && link.source !== link.target);
  return frame(look, {
    tooltip: tooltip(look, 'item', {
      formatter: (p: { dataType: string; name: string; value: number; data: { source?: string; target?: string } }) =>
        p.dataType === 'edge'
          ? `${label(p.data.source)} → ${label(p.data.target)}\n${formatNumber(p.value)}`
          : `${label(p.name)}\n${formatNumber(p.value)}`,
    }),
    series: [
      {
        type: 'sankey',
        left: 4,
        right: sankeyLabel + 8,
        top: 10,
        bottom: 10,
        nodeWidth: 12,
        nodeGap: 14,
        draggable: false,
        emphasis: { focus: 'adjacency' },
        itemStyle: { borderWidth: 0, borderRadius: 3 },
        lineStyle: { color: 'source', opacity: 0.28, curveness: 0.5 },
        label: { color: look.text, width: sankeyLabel, overflow: 'truncate', ellipsis: '…', formatter: (p: { name: string }) => label(p.name) },
        // The id is the name here: two nodes may carry the same label.
        data: nodes.map((node) => ({ name: node.id })),
        links,
      },
    ],
  });
}

const day = /^\d{4}-\d{2}-\d{2}/;
// More than a year would shrink the cells below what can be read. The tool refuses what is longer (maxDays
// in toolkit/charts); a thread may contain older ones.
const mostDays = 372;

export function calendarOption(data: Json, look: Look): Option {
  const points = asObjects(data.data)
    .map((row) => [asText(row.date).slice(0, 10), asNumber(row.value, 0)] as [string, number])
    .filter(([date]) => day.test(date))
    .sort(([a], [b]) => a.localeCompare(b));
  const values = points.map(([, value]) => value);
  const range = calendarRange(data, points);
  return frame(look, {
    tooltip: tooltip(look, 'item', {
      formatter: (p: { value: [string, number] }) => `${p.value[0]}\n${formatNumber(p.value[1])}`,
    }),
    visualMap: {
      type: 'continuous',
      orient: 'horizontal',
      left: 'center',
      bottom: 0,
      itemWidth: 12,
      itemHeight: 90,
      min: Math.min(...values, 0),
      max: Math.max(...values, 1),
      text: [w().more, w().less],
      textStyle: { color: look.muted },
      inRange: { color: scaleColors(asText(data.colorScale, 'github'), look) },
    },
    calendar: {
      range,
      left: 36,
      right: 8,
      top: 24,
      bottom: 48,
      cellSize: ['auto', 'auto'],
      splitLine: { show: false },
      itemStyle: { color: look.empty, borderColor: look.surface, borderWidth: 2 },
      yearLabel: { show: false },
      monthLabel: { color: look.muted, nameMap: months() },
      dayLabel: { color: look.muted, firstDay: 1, nameMap: weekdays() },
    },
    series: [{ type: 'heatmap', coordinateSystem: 'calendar', data: points }],
  });
}

function calendarRange(data: Json, points: [string, number][]): [string, string] {
  const first = asText(data.startDate).slice(0, 10);
  const last = asText(data.endDate).slice(0, 10);
  const today = '1970-01-01';
  const from = day.test(first) ? first : (points[0]?.[0] ?? today);
  const to = day.test(last) ? last : (points.at(-1)?.[0] ?? from);
  const days = (Date.parse(to) - Date.parse(from)) / 86_400_000;
  if (days <= mostDays) return [from, to];
  return [new Date(Date.parse(to) - mostDays * 86_400_000).toISOString().slice(0, 10), to];
}
