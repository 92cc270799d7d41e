import { BarChart, FunnelChart, GaugeChart, HeatmapChart, LineChart, MapChart, PieChart, RadarChart, SankeyChart, ScatterChart, TreemapChart } from 'echarts/charts';
import {
  CalendarComponent,
  GeoComponent,
  GridComponent,
  LegendComponent,
  LegendScrollComponent,
  PolarComponent,
  RadarComponent,
  TooltipComponent,
  VisualMapContinuousComponent,
} from 'echarts/components';
import { getInstanceByDom, getMap, init, registerMap, use, type EChartsType } from 'echarts/core';
import { LabelLayout } from 'echarts/features';
import { SVGRenderer } from 'echarts/renderers';
import type { Option } from './frame';

// The drawing library with the series that the sixteen kinds need. This module
// is loaded with the first chart.
use([
  BarChart, FunnelChart, GaugeChart, HeatmapChart, LineChart, MapChart, PieChart, RadarChart, SankeyChart, ScatterChart, TreemapChart,
  CalendarComponent, GeoComponent, GridComponent, LegendComponent, LegendScrollComponent, PolarComponent, RadarComponent,
  TooltipComponent, VisualMapContinuousComponent, LabelLayout, SVGRenderer,
]);

export { getMap, registerMap };

/** Draws an option into an element and keeps it at the element's size. Returns the function that removes it. */
export function draw(element: HTMLElement, option: Option, animate: boolean): () => void {
  getInstanceByDom(element)?.dispose();
  const chart: EChartsType = init(element, null, { renderer: 'svg' });
  chart.setOption({ ...option, animation: animate });
  const observer = new ResizeObserver(() => chart.resize());
  observer.observe(element);
  return () => {
    observer.disconnect();
    chart.dispose();
  };
}
