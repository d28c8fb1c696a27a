import type { Environment } from './secret.ts'

/** The variables of this process, read here alone: an entry point asks once and hands the values down. */
export const readEnvironment = (): Environment => process.env
