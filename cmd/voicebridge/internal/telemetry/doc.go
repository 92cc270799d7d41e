// Package telemetry is what operators see of the process: figures for Prometheus, traces
// for OpenTelemetry, and profiles. It is told of what has happened, with its times, by
// the parts that did it; none of them knows it. It alone imports the SDK of OpenTelemetry.
package telemetry
