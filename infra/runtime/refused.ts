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

/** The certificate for which a connection by TLS was refused: the server's certificate, or the client's. */
interface CertificateFault {
  whose: 'server' | 'client'
  code: string
}

/** Looks at an error alone, not at its cause. */
export function certificateFaultOf({ code = '' }: { code?: string }): CertificateFault | undefined {
  if (CERTIFICATE_CODES.has(code)) return { whose: 'server', code }
  return ALERT_CODE.test(code) ? { whose: 'client', code } : undefined
}

/** The refusal of a certificate by its files' variables, `<prefix>_CA`, …; undefined for any other error. */
export function refusedCertificate(error: unknown, server: string, prefix: string): Refused | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    const fault = certificateFaultOf(each as { code?: string })
    if (fault === undefined) continue
    const line =
      fault.whose === 'server'
        ? `the certificate of ${server} is not accepted (${fault.code}); check its dates and names, and the authority in ${prefix}_CA`
        : `${server} does not accept this client's certificate (${fault.code}); check ${prefix}_CERT and ${prefix}_KEY`
    return new Refused(line, { cause: error })
  }
  return undefined
}
