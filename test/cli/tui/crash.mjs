// Loaded into the program by the tests of this folder: SIGUSR2 is an error that nobody catches.
process.on('SIGUSR2', () => {
  throw new Error('crashed on purpose')
})
