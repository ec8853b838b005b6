"""Tables, figures, terminal, Markdown and HTML, Allure labels and attachments."""
