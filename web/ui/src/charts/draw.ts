import { geographyOf } from './geo';
import type { Look } from './look';
import { chartOption } from './option';
import type { Chart } from './output';

/** Draws into an element. Returns the function that removes what it drew. */
type Draw = (element: HTMLElement, animate: boolean) => () => void;

/**
 * Loads what a chart needs. Drawing is a step of its own, for the caller to take
 * only if the chart is still wanted then.
 */
export async function loadChart(chart: Chart, look: Look): Promise<Draw> {
  const option = chartOption(chart, look);
  if (!option) return () => () => undefined;
  const engine = await import('./engine');
  const map = chart.kind === 'geographic' ? geographyOf(chart.data).map : null;
  if (!map) return (element, animate) => engine.draw(element, option, animate);
  const maps = await import('./maps');
  await maps.loadMap(map);
  const projected = maps.projected(map, option);
  return (element, animate) => engine.draw(element, projected, animate);
}
