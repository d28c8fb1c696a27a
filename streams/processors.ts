import { bookTopics } from './book/main.ts'
import { provisionalTopics } from './provisional-items/main.ts'
import type { ProcessorTopics } from './runner/processor-topics.ts'

export const PROCESSORS: readonly ProcessorTopics[] = [bookTopics, provisionalTopics]
