/**
 * Where a platform on one machine finds a stand-in for the game's platform, and which account of it the demo links.
 *
 * Used in development alone; elsewhere MARKETLOG_INVENTORY_URL names the real one.
 */

/** Path of the stand-in below the platform's own origin. */
export const STAND_IN_PATH = '/gamestore'

/** An account with an inventory. */
export const STAND_IN_ACCOUNT = '76561190000000001'
