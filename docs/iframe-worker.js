/* A browser starts no worker for a page that is read from the disk: the search then works in a frame that nobody sees. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.inside = new Promise(resolve => {
        frame.onload = () => {
          const inside = frame.contentWindow
          inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = frame.contentDocument.createElement("script")
          script.onload = () => resolve(inside)
          script.src = address
          frame.contentDocument.body.append(script)
        }
      })
      document.documentElement.append(frame)
    }

    async postMessage(data) {
      (await this.inside).dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
