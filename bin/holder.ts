import { runHolder } from '../src/agent/holder/main.ts'

// `panel __holder <folder>`: what a failure says is in the server's state folder; what is no failure of a run ends the process.
void runHolder(process.argv[3] ?? '')
