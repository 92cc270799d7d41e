// Package telemetry is what operators see of the process: metrics for Prometheus, traces for
// OpenTelemetry, and profiles. Other parts report what has happened, and when, through interfaces
// of their own; none of them imports it. Only this package imports the OpenTelemetry SDK.
package telemetry
