"""The parts of the model server of generative models: pictures, sounds, films and scenes."""
