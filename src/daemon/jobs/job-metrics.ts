import { Counter, Gauge, type Registry } from 'prom-client'

/** What is counted of jobs, by their kind. */
export interface JobMetrics {
  readonly steps: Counter<'kind' | 'outcome'>
  readonly ended: Counter<'kind' | 'status'>
  readonly running: Gauge<'kind'>
}

/** The metrics of jobs in this registry. */
export function createJobMetrics(registry: Registry): JobMetrics {
  const registers = [registry]
  return {
    steps: new Counter({
      ...{ name: 'panel_job_steps_total', help: 'Attempts of steps of jobs by how they ended', registers },
      labelNames: ['kind', 'outcome'],
    }),
    ended: new Counter({
      ...{ name: 'panel_jobs_ended_total', help: 'Jobs that have ended', registers },
      labelNames: ['kind', 'status'],
    }),
    running: new Gauge({
      ...{ name: 'panel_jobs_running', help: 'Jobs of which a step is under way', registers },
      labelNames: ['kind'],
    }),
  }
}
