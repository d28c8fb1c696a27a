interface ChoiceProps<Value extends string> {
  /** For screen readers. */
  legend: string
  values: readonly Value[]
  textOf?: (value: Value) => string
  isChosen: (value: Value) => boolean
  onChoose: (value: Value) => void
  /** Why a value cannot be chosen; undefined where it can. */
  refusalOf?: (value: Value) => string | undefined
}

/** Buttons in a row, of which the chosen ones are pressed. */
export function Choice<Value extends string>(props: ChoiceProps<Value>) {
  const { legend, values, textOf = String, isChosen, onChoose, refusalOf = () => undefined } = props
  return (
    <fieldset className="choice">
      <legend className="unseen">{legend}</legend>
      {values.map(value => {
        const refusal = refusalOf(value)
        return (
          <button
            key={value}
            type="button"
            aria-pressed={isChosen(value)}
            disabled={refusal !== undefined}
            title={refusal}
            onClick={() => onChoose(value)}
          >
            {textOf(value)}
          </button>
        )
      })}
    </fieldset>
  )
}
