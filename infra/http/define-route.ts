/** A route, declared once: the same object validates, authorizes, answers (serve-routes.ts) and documents (openapi.ts). */
import type { Request, Response } from 'express'
import type { z } from 'zod'
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import type { AddressBudget } from '#infra/redis/rate-limit.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { Operation, Reply } from '#schemas/api/operation.ts'
import type { Credential } from './credential.ts'
import type { Sent } from './reply.ts'

/** A schema for every tier: bounds may be the tier's. The document has that of the highest one. */
type PerTier<S> = Record<Tier, S>

type Output<S> = S extends z.ZodType ? z.output<S> : undefined

type CredentialOf<T> = T extends readonly string[] ? Credential : undefined

/** A request whose credential and limits have been checked, and nothing else. */
export interface AuthorizedRequest<C> {
  /** Of an accepted key or session; undefined where a route needs none. */
  credential: C
  request: Request
  response: Response
}

/** A request that may be answered; `lease` is what the route's `admit` gave it. */
interface RouteContext<P, Q, B, C, L> extends AuthorizedRequest<C> {
  params: P
  query: Q
  body: B
  lease: L
}

interface RouteSpec<P, Q, B, V, T, L>
  extends Omit<Operation, 'params' | 'query' | 'body' | 'reply' | 'tiers'>,
    Pick<Endpoint, 'areParamsChecked' | 'budget' | 'uncountedCode'> {
  tiers: T
  params?: P
  query?: Q | PerTier<Q>
  body?: B
  reply: Reply<V>
  /**
   * Limits of the route's own, and what a tier may not ask: between the limits of the key and the parameters. The lease that it gives is
   * released if the request fails after all, else by the handler.
   */
  admit?(authorized: AuthorizedRequest<CredentialOf<T>>): L | Promise<L>
  /** Gives the value of a JSON reply, nothing where the reply has no body, or SENT when it has answered itself. */
  handle(route: RouteContext<Output<P>, Output<Q>, Output<B>, CredentialOf<T>, L>): V | Sent | Promise<V | Sent>
}

export interface Endpoint
  extends Pick<
      Operation,
      'method' | 'path' | 'tiers' | 'access' | 'scope' | 'params' | 'query' | 'body' | 'isBodyOptional'
    >,
    Partial<Pick<Operation, 'group'>> {
  /** Instead of `query`, where it depends on the tier. */
  queries?: PerTier<z.ZodObject> | undefined
  status: number
  /** False: a path that does not fit its schema names nothing, and the handler answers so. */
  areParamsChecked?: false
  /** Counts requests that need no key, by address. */
  budget?: AddressBudget
  /** Answered when requests cannot be counted, SERVICE_UNAVAILABLE unless named: counters and live tables share a server. */
  uncountedCode?: ErrorCode
  admit?(authorized: AuthorizedRequest<Credential | undefined>): unknown
  handle(route: RouteContext<unknown, unknown, unknown, Credential | undefined, unknown>): unknown
}

export type Route = Endpoint & Operation

export function defineRoute<
  P extends z.ZodObject | undefined = undefined,
  Q extends z.ZodObject | undefined = undefined,
  B extends z.ZodObject | undefined = undefined,
  T extends readonly string[] | undefined = undefined,
  V = void,
  L = undefined,
>(spec: RouteSpec<P, Q, B, V, T, L>): Route {
  const { query } = spec
  const queries = isPerTier(query) ? query : undefined
  const route = { ...spec, query: queries ? queries[HIGHEST] : query, queries, status: spec.reply.status }
  return route as unknown as Route
}

/** Declares what is served without a key and left out of the API's description. */
export const definePage = (
  method: 'get' | 'post',
  path: string,
  budget: AddressBudget,
  handle: (page: { request: Request; response: Response }) => Sent | Promise<Sent>,
): Endpoint => ({ method, path, budget, tiers: undefined, status: 200, handle })

export function perTier<L, V>(tiers: Record<Tier, L>, make: (limits: L) => V): Record<Tier, V> {
  return Object.fromEntries(TIERS.map(tier => [tier, make(tiers[tier])])) as Record<Tier, V>
}

const HIGHEST: Tier = 'quant'

const isPerTier = (query: unknown): query is PerTier<z.ZodObject> =>
  typeof query === 'object' && query !== null && !('safeParse' in query)
