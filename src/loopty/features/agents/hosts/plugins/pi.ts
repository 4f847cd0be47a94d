// Written by `loopty agent install`; `loopty agent uninstall` removes it.
// Lets an agent go on while attempts are left. pi has no subagents, so edits are refused to nobody.
import { spawn } from "node:child_process"

const PROGRAM: string[] = __PROGRAM__
const SESSION = `pi-${process.pid}-${Date.now()}`

const ask = (event: string, fields: object): Promise<any> =>
  new Promise((done) => {
    const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), "hook", event], { stdio: ["pipe", "pipe", "ignore"] })
    let reply = ""
    child.on("error", () => done({}))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (part: Buffer) => (reply += part))
    child.on("close", () => {
      try {
        done(JSON.parse(reply))
      } catch {
        done({})
      }
    })
    child.stdin.end(JSON.stringify({ session_id: SESSION, cwd: process.cwd(), ...fields }))
  })

export default function (pi: any) {
  let announced = false
  pi.on("before_agent_start", async (event: any) => {
    if (announced) return
    announced = true
    const said = (await ask("SessionStart", {})).hookSpecificOutput?.additionalContext
    if (said) return { systemPrompt: `${event.systemPrompt}\n${said}` }
  })
  pi.on("tool_result", async (event: any) => {
    if (!JSON.stringify(event.input ?? {}).includes("loopty")) return
    await ask("PostToolUse", { tool_name: event.toolName, tool_input: event.input })
  })
  pi.on("agent_end", async () => {
    const reply = await ask("Stop", {})
    if (reply.decision === "block") pi.sendUserMessage(reply.reason, { deliverAs: "followUp" })
  })
}
