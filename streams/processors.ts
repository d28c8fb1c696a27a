import { bookTopics } from './book/main.ts'
import { provisionalTopics } from './provisional-items/main.ts'
import type { ProcessorTopics } from './runner/changelog-positions.ts'

export const PROCESSORS: readonly ProcessorTopics[] = [bookTopics, provisionalTopics]
