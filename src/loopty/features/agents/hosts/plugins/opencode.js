// Written by `loopty agent install`; `loopty agent uninstall` removes it.
// Tells loopty what agents do here, refuses what it refuses, and lets an agent go on while attempts are left.
import { spawn } from "node:child_process"

const PROGRAM = __PROGRAM__
const WATCHED = /loopty|^(bash|edit|write|patch|multiedit|apply_patch)$/

const ask = (event, fields) =>
  new Promise((done) => {
    const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), "hook", event], { stdio: ["pipe", "pipe", "ignore"] })
    let reply = ""
    child.on("error", () => done({}))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (part) => (reply += part))
    child.on("close", () => {
      try {
        done(JSON.parse(reply))
      } catch {
        done({})
      }
    })
    child.stdin.end(JSON.stringify(fields))
  })

export const Loopty = async ({ client, directory }) => {
  const parents = new Map()
  let announced = false
  const who = (id) => {
    let root = id
    while (parents.has(root)) root = parents.get(root)
    return { session_id: root, cwd: directory, ...(root === id ? {} : { agent_id: id }) }
  }
  return {
    event: async ({ event }) => {
      const { info, sessionID } = event.properties ?? {}
      if (event.type === "session.created" && info?.parentID) parents.set(info.id, info.parentID)
      if (event.type !== "session.idle" || parents.has(sessionID)) return
      const reply = await ask("Stop", who(sessionID))
      if (reply.decision !== "block") return
      const body = { parts: [{ type: "text", text: reply.reason }] }
      client.session.prompt({ path: { id: sessionID }, body }).catch(() => {})
    },
    "tool.execute.before": async (input, output) => {
      if (!WATCHED.test(input.tool)) return
      const call = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }
      const { hookSpecificOutput: said } = await ask("PreToolUse", { ...who(input.sessionID), ...call })
      if (said?.permissionDecision === "deny") throw new Error(said.permissionDecisionReason)
    },
    "tool.execute.after": async (input, output) => {
      if (!WATCHED.test(input.tool)) return
      const call = { tool_name: input.tool, tool_input: input.args ?? {}, tool_use_id: input.callID }
      await ask("PostToolUse", { ...who(input.sessionID), ...call, tool_response: output.output ?? output })
    },
    "experimental.chat.system.transform": async (_input, output) => {
      if (announced) return
      announced = true
      const { hookSpecificOutput: said } = await ask("SessionStart", { cwd: directory })
      if (said?.additionalContext) output.system.push(said.additionalContext)
    },
  }
}
