// Copies the command beside a button.
addEventListener("click", async event => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const command = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(command.textContent);
  } catch {  // no clipboard in an insecure context (http or file)
    getSelection().selectAllChildren(command);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
});
