"""Says what is in a WAV file to a thread of voicebridge, with OpenAI's own SDK, and prints both sides.

    pip install 'openai[realtime]'
    python talk.py question.wav [THREAD]

The file has 24,000 samples a second of 16 bits, mono. VOICEBRIDGE_URL is ws://127.0.0.1:8080/v1 unless it is set,
VOICEBRIDGE_TOKEN a token where voicebridge asks for one.
"""

import asyncio, base64, os, sys, wave

from openai import AsyncOpenAI


async def talk(name: str, thread: str | None) -> None:
    with wave.open(name) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (24_000, 2, 1):
            sys.exit(f"{name} has not 24,000 samples a second of 16 bits, mono")
        speech = file.readframes(file.getnframes()) + bytes(96_000)  # silence at its end ends the turn
    url = os.environ.get("VOICEBRIDGE_URL", "ws://127.0.0.1:8080/v1")
    client = AsyncOpenAI(api_key=os.environ.get("VOICEBRIDGE_TOKEN", "none"), websocket_base_url=url)
    async with client.realtime.connect(model="gpt-realtime", extra_query={"thread_id": thread} if thread else {}) as call:
        for at in range(0, len(speech), 48_000):  # a file may be sent at once
            await call.input_audio_buffer.append(audio=base64.b64encode(speech[at : at + 48_000]).decode())
        async for event in call:
            if event.type == "conversation.item.input_audio_transcription.completed":
                print("You:", event.transcript)
            elif event.type == "response.output_audio_transcript.done":
                print("It:", event.transcript)
            elif event.type == "error":
                print("Error:", event.error.message, file=sys.stderr)
            elif event.type == "response.done":
                return


asyncio.run(talk(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
