/** The processors that run exactly once: what `reset` knows of them. */
import { bookTopics } from './book/main.ts'
import { provisionalTopics } from './provisional-items/main.ts'
import type { ProcessorTopics } from './runner/processor-topics.ts'

/** Every processor. */
export const PROCESSORS: readonly ProcessorTopics[] = [bookTopics, provisionalTopics]
