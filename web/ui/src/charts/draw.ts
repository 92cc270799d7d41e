import { geographyOf } from './geo';
import type { Look } from './look';
import { chartOption } from './option';
import type { Chart } from './output';

/** Loads what a chart needs and draws it. Returns the function that removes it. */
export async function drawChart(element: HTMLElement, chart: Chart, look: Look, animate: boolean): Promise<() => void> {
  const option = chartOption(chart, look);
  if (!option) return () => undefined;
  const engine = await import('./engine');
  const map = chart.kind === 'geographic' ? geographyOf(chart.data).map : null;
  if (!map) return engine.draw(element, option, animate);
  const maps = await import('./maps');
  await maps.loadMap(map);
  return engine.draw(element, maps.projected(map, option), animate);
}
