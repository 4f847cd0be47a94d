// The SDK for `import`; the code is in index.cjs because Node before 22 cannot `require` a module like this one.
export { Run } from "./index.cjs";
