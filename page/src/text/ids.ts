/** The name by which a node is shown and typed; its id is its path in the tree, which grows. */

export function nodeName(node: { handle: number }): string {
  return `@${node.handle}`;
}
