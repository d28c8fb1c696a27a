/**
 * Prometheus metrics of a process.
 *
 * Several roles of one process share a registry, so a metric is created at its first use and found
 * again by its name. Invariant: a label never holds a credential, an item name or an id, which keeps
 * the number of series bounded by providers, topics and routes.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** Creates metrics or finds them again. */
export interface Metrics {
  registry: Registry
  counter(name: string, help: string, labels?: string[]): Counter
  gauge(name: string, help: string, labels?: string[]): Gauge
  /** Buckets in the unit that the name ends with, seconds for most. */
  histogram(name: string, help: string, labels?: string[], buckets?: number[]): Histogram
}

const LATENCY_BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]

/** Opens the registry of a process, with Node's own metrics in it. */
export function openMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const found = <T>(name: string, create: () => T): T => (registry.getSingleMetric(name) as T | undefined) ?? create()
  return {
    registry,
    counter: (name, help, labels = []) =>
      found(name, () => new Counter({ name, help, labelNames: labels, registers: [registry] })),
    gauge: (name, help, labels = []) =>
      found(name, () => new Gauge({ name, help, labelNames: labels, registers: [registry] })),
    histogram: (name, help, labels = [], buckets = LATENCY_BUCKETS_SECONDS) =>
      found(name, () => new Histogram({ name, help, labelNames: labels, buckets, registers: [registry] })),
  }
}
