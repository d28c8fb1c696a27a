/**
 * Refusals for good, of a server or of ours: credentials, a certificate. Trying again does not help.
 *
 * Recognized by codes of errors, never by their text.
 */

/** Its message is one line that names the server and what to check, and quotes no secret. */
export class Refused extends Error {}

/** Codes by which Node names a certificate that it does not accept. */
const CERTIFICATE_CODES = new Set([
  ...['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'CERT_UNTRUSTED', 'CERT_REJECTED', 'CERT_SIGNATURE_FAILURE'],
  ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  ...['UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'ERR_TLS_CERT_ALTNAME_INVALID'],
])
/** Codes for ours being refused by the other side. */
const ALERT_CODE = /^ERR_SSL_.*ALERT/

/** Whose certificate is refused; looks at an error alone, not at its cause. */
export function refusedSide({ code = '' }: { code?: string }): 'server' | 'client' | undefined {
  if (CERTIFICATE_CODES.has(code)) return 'server'
  return ALERT_CODE.test(code) ? 'client' : undefined
}

/** The refusal of a certificate by its files' variables, `<prefix>_CA`, …; undefined for any other error. */
export function refusedCertificate(error: unknown, server: string, prefix: string): Refused | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code } = each as { code?: string }
    const side = refusedSide({ code })
    if (side === undefined) continue
    const line =
      side === 'server'
        ? `the certificate of ${server} is not accepted (${code}); check its dates and names, and the authority in ${prefix}_CA`
        : `${server} does not accept this client's certificate (${code}); check ${prefix}_CERT and ${prefix}_KEY`
    return new Refused(line, { cause: error })
  }
  return undefined
}
