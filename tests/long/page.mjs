// Opens a page in headless Chromium, runs an expression in it again and again until it gives something, and prints that.
//
//   node page.mjs PROFILE_FOLDER URL EXPRESSION
//
// Chromium ends with this process, whatever happens; PROFILE_FOLDER is its own and may be removed afterwards.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const PATIENCE_MS = 60_000
const [folder, url, expression] = process.argv.slice(2)
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

async function found(what, look) {
  const end = Date.now() + PATIENCE_MS
  let problem = 'nothing there'
  while (Date.now() < end) {
    try {
      const value = await look()
      if (value) return value
    } catch (error) {
      problem = error.message // a page that loads itself again, or is not there yet
    }
    await pause(100)
  }
  throw new Error(`no ${what} within ${PATIENCE_MS / 1000} s: ${problem}`)
}

function call(socket, method, params) {
  return new Promise((resolve, reject) => {
    const id = ++call.last
    const listen = event => {
      const reply = JSON.parse(event.data)
      if (reply.id !== id) return
      socket.removeEventListener('message', listen)
      reply.error ? reject(new Error(reply.error.message)) : resolve(reply.result)
    }
    socket.addEventListener('message', listen)
    socket.send(JSON.stringify({ id, method, params }))
  })
}
call.last = 0

async function main() {
  const portFile = join(folder, 'DevToolsActivePort')
  await found('DevTools port', () => existsSync(portFile) && readFileSync(portFile, 'utf8').includes('\n'))
  const port = readFileSync(portFile, 'utf8').split('\n')[0]
  const page = await found('page', async () =>
    (await (await fetch(`http://127.0.0.1:${port}/json`)).json()).find(each => each.type === 'page'))
  const socket = new WebSocket(page.webSocketDebuggerUrl)
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve)
    socket.addEventListener('error', reject)
  })
  return await found('result', async () => {
    const reply = await call(socket, 'Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })
    if (reply.exceptionDetails) throw new Error(reply.result.description)
    return reply.result.value
  })
}

const options = ['--headless', '--no-sandbox', '--disable-gpu-sandbox', '--enable-unsafe-swiftshader', '--remote-debugging-port=0',
  '--allow-file-access-from-files', '--window-size=1400,1000', `--user-data-dir=${folder}`]
const browser = spawn('chromium', [...options, url], { stdio: 'ignore' })
let status = 0
try {
  console.log(JSON.stringify(await main()))
} catch (error) {
  console.error(String(error))
  status = 1
} finally {
  browser.kill('SIGKILL')
}
process.exit(status)
