// One HTTP request with Node's own fetch; of a stream, only the first lines with data.
"use strict"

module.exports = async ({ method, url, headers, body, lines }) => {
  const abort = new AbortController()
  const response = await fetch(url, { method, headers, body: body ?? undefined, signal: abort.signal })
  if (lines === 0) return { status: response.status, body: await response.text() }
  const decoder = new TextDecoder()
  let text = ""
  let data = []
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true })
    data = text.split("\n").slice(0, -1).filter(line => line.startsWith("data:"))
    if (data.length >= lines) break
  }
  abort.abort()
  return { status: response.status, body: data.slice(0, lines).join("\n") }
}
