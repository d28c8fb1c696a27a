/**
 * Prometheus metrics of a process.
 *
 * Several roles of one process share a registry, so a metric is created at its first use and found
 * again by its name. Invariant: a label never holds a credential, an item name or an id, which keeps
 * the number of series bounded by providers, topics and routes.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

export type Metrics = ReturnType<typeof openMetrics>

const LATENCY_BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]

export function openMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const findOr = <T>(name: string, create: () => T): T => (registry.getSingleMetric(name) as T | undefined) ?? create()
  return {
    registry,
    counter: (name: string, help: string, labels: string[] = []): Counter =>
      findOr(name, () => new Counter({ name, help, labelNames: labels, registers: [registry] })),
    gauge: (name: string, help: string, labels: string[] = []): Gauge =>
      findOr(name, () => new Gauge({ name, help, labelNames: labels, registers: [registry] })),
    /** Buckets in the unit that the name ends with, seconds for most. */
    histogram: (name: string, help: string, labels: string[] = [], buckets = LATENCY_BUCKETS_SECONDS): Histogram =>
      findOr(name, () => new Histogram({ name, help, labelNames: labels, buckets, registers: [registry] })),
  }
}
