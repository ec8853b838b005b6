"""What people are asked about DTAiLS, and what their answers amount to."""
