import { geoAlbersUsa, geoNaturalEarth1, type GeoProjection } from 'd3-geo';
import type { FeatureCollection } from 'geojson';
import { feature } from 'topojson-client';
import type { GeometryCollection, Topology } from 'topojson-specification';
import { getMap, registerMap } from './engine';
import type { Option } from './frame';
import type { MapName } from './geo';

// Loaded with the first map. Each atlas is a file of its own.

async function atlas(map: MapName): Promise<{ topology: unknown; object: string }> {
  switch (map) {
    case 'world':
      return { topology: (await import('world-atlas/countries-110m.json')).default, object: 'countries' };
    case 'usa-states':
      return { topology: (await import('us-atlas/states-10m.json')).default, object: 'states' };
    case 'usa-counties':
      return { topology: (await import('us-atlas/counties-10m.json')).default, object: 'counties' };
  }
}

/** Registers a map with the drawing library, its regions named by their id. */
export async function loadMap(map: MapName): Promise<void> {
  if (getMap(map)) return;
  const { topology, object } = await atlas(map);
  const topo = topology as Topology;
  const shapes = feature(topo, topo.objects[object] as GeometryCollection<{ name?: string }>) as FeatureCollection;
  for (const shape of shapes.features) {
    const id = shape.id === undefined ? String(shape.properties?.name ?? '') : String(shape.id);
    shape.properties = { ...shape.properties, id };
  }
  registerMap(map, shapes as unknown as Parameters<typeof registerMap>[1]);
}

/** Adds the projection: raw degrees would draw lines across the map's edge. */
export function projected(map: MapName, option: Option): Option {
  const projection: GeoProjection = map === 'world' ? geoNaturalEarth1() : geoAlbersUsa();
  const series = (option.series as Option[]).map((one) => ({
    ...one,
    projection: {
      project: (point: [number, number]) => projection(point),
      unproject: (point: [number, number]) => projection.invert?.(point),
      stream: projection.stream,
    },
  }));
  return { ...option, series };
}
