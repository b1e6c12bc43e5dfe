/** The flag of a field, without dashes in front: `authRateLimitMax` is `auth-rate-limit-max`. */
export function flagName(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}
