/** The receiver of services/api/README.md, run as it is printed there, against this service and against a forger. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openPortBook } from '#infra/stack/ports.ts'
import { openWebhookScenario, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const README = new URL('../../services/api/README.md', import.meta.url)

describe("the README's receiver of webhooks", () => {
  const platform = useServers()
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-receiver-'))
  let scenario: WebhookScenario
  let port: number
  before('a port that is allowed, and roles', async () => {
    port = await openPortBook(folder)('receiver')
    scenario = await openWebhookScenario(platform, { config: { webhookAllow: [`127.0.0.1:${port}`] } })
  })
  after('end of them', async () => {
    rmSync(folder, { recursive: true, force: true })
    await scenario.close()
  })

  it('takes what is genuine, and answers 401 to what is forged, altered or old', async () => {
    const code = /```js\n(\/\/ receiver\.js[\s\S]*?)```/.exec(readFileSync(README, 'utf8'))?.[1]
    expect(code, 'the block of the README').to.be.a('string')
    const file = join(folder, 'receiver.cjs')
    writeFileSync(file, code ?? '')
    const account = await scenario.account()
    const url = `http://127.0.0.1:${port}/`
    const made = await scenario.ask(account, 'POST', '/v1/account/webhooks', { label: 'readme', url })
    const child = spawn(process.execPath, [file], {
      env: { WEBHOOK_SECRET: made.body.secret, PORT: String(port) },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    try {
      const forge = (headers: Record<string, string>) =>
        fetch(url, { method: 'POST', headers, body: '{}' }).then(answer => answer.status)
      await eventually(async () => (await forge({})) === 401, 'the receiver to listen')
      const timestamp = String(Math.floor(Date.now() / 1000))
      for (const signature of ['', 'ab', 'x'.repeat(64), 'é', '0'.repeat(64)]) {
        const status = await forge({ 'x-svc-timestamp': timestamp, 'x-svc-signature': encodeURIComponent(signature) })
        expect(status, signature).to.equal(401)
      }
      expect(printed).to.equal('')
      const eventId = await scenario.event(account)
      const [delivery] = await eventually(async () => {
        const { body } = await scenario.ask(account, 'GET', '/v1/account/webhooks/deliveries')
        return body.deliveries[0]?.status === 'succeeded' ? body.deliveries : undefined
      }, 'the delivery to be taken')
      expect(delivery).to.include({ event_id: eventId, last_http_status: 204 })
      await eventually(() => printed.includes(delivery.id), 'what the receiver prints')
    } finally {
      child.kill('SIGKILL')
    }
  })
})
